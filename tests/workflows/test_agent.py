"""The agent loop on a real server, with the scripted model."""

from installation import Installation

LOOK = {"kind": "agent", "goal": "look at the folder"}


async def test_a_text_reply_ends_the_run(site: Installation) -> None:
    result = await site.run(LOOK, {"replies": [{"text": "All done."}]})
    assert (result.outcome, result.reason) == ("accepted", "text_answer")
    assert result.output == "All done."


async def test_a_tool_is_called_and_its_result_goes_back(site: Installation) -> None:
    script = {
        "replies": [
            {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]},
            {"text": "Empty."},
        ]
    }
    result = await site.run(LOOK, script)
    assert result.output == "Empty."
    assert result.tools_used == {"fs.list": 1}
    assert [record.tool_calls for record in result.iterations] == [1, 0]
