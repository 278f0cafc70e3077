"""How an agent run ends: every path to a text, or to the plain word that there is none."""

import pytest
from agent_runs import books_agree, call, calls, conversation, echo, results, script, shown, task
from installation import Installation

from perdure.domain.turns.settings import FALLBACK_TEXT, FORCED_TEXT_PROMPT, NUDGE_PROMPT

DONE = {"text": "Done."}
EMPTY = {"text": ""}
FORCED = {"text": "Closing."}
ILLEGAL = calls(call("no.such", a=1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "replies", "expected", "output"),
    [
        pytest.param({}, [DONE], "accepted/text_answer", "Done.", id="text"),
        pytest.param({}, [echo("a"), DONE], "accepted/text_answer", "Done.", id="tool, then text"),
        pytest.param({}, [EMPTY, DONE], "accepted/text_answer", "Done.", id="nudged"),
        pytest.param({}, [EMPTY, EMPTY], "no_output/no_output", FALLBACK_TEXT, id="nudged in vain"),
        pytest.param(
            {"nudge_on_empty": False}, [EMPTY], "no_output/no_output", FALLBACK_TEXT, id="no nudge"
        ),
        pytest.param(
            {"nudge_on_empty": False, "fallback_text": ""},
            [EMPTY],
            "no_output/no_output",
            "",
            id="neither nudge nor fallback",
        ),
        pytest.param(
            {"fallback_text": "Sorry.", "max_iterations": 1},
            [EMPTY],
            "no_output/no_output",
            "Sorry.",
            id="no nudge on the last iteration",
        ),
        pytest.param(
            {}, [echo("a", text="Plan."), EMPTY], "accepted/text_answer", "Plan.", id="deferred"
        ),
        pytest.param(
            {"defer_mixed_text": False, "nudge_on_empty": False},
            [echo("a", text="Plan."), EMPTY],
            "no_output/no_output",
            FALLBACK_TEXT,
            id="not deferred",
        ),
        pytest.param(
            {"max_iterations": 1},
            [echo("a"), FORCED],
            "best_effort/max_iterations",
            "Closing.",
            id="forced by the last iteration",
        ),
        pytest.param(
            {"max_iterations": 1},
            [echo("a"), EMPTY],
            "best_effort/max_iterations",
            FALLBACK_TEXT,
            id="forced in vain",
        ),
        pytest.param(
            {"max_iterations": 1},
            [echo("a", text="Plan."), EMPTY],
            "best_effort/max_iterations",
            "Plan.",
            id="forced in vain with deferred text",
        ),
        pytest.param(
            {"max_iterations": 1},
            [echo("a"), calls(call("probe.echo", text="b"), text="Closing.")],
            "best_effort/max_iterations",
            "Closing.",
            id="tool calls in a forced text are stripped",
        ),
        pytest.param(
            {},
            [ILLEGAL, ILLEGAL, FORCED],
            "tool_misuse/illegal_tool",
            "Closing.",
            id="two illegal calls",
        ),
        pytest.param(
            {"max_illegal_strikes": 1},
            [ILLEGAL, FORCED],
            "tool_misuse/illegal_tool",
            "Closing.",
            id="one strike allowed",
        ),
        pytest.param(
            {},
            [ILLEGAL, echo("a"), ILLEGAL, DONE],
            "accepted/text_answer",
            "Done.",
            id="a success heals a strike",
        ),
        pytest.param(
            {},
            [ILLEGAL, calls(call("probe.fail", text="no")), ILLEGAL, FORCED],
            "tool_misuse/illegal_tool",
            "Closing.",
            id="an error heals nothing",
        ),
        pytest.param({}, [{"error": "refusal"}], "failed/refusal", FALLBACK_TEXT, id="refusal"),
        pytest.param(
            {},
            [{"text": "Half", "stop_reason": "pause_turn"}, DONE],
            "accepted/text_answer",
            "Half\n\nDone.",
            id="a pause goes on",
        ),
        pytest.param(
            {},
            [{"text": "Half", "stop_reason": "pause_turn"}, EMPTY],
            "accepted/text_answer",
            "Half",
            id="what a pause left behind",
        ),
        pytest.param(
            {}, [{"error": "bad_request"}], "failed/model_error", FALLBACK_TEXT, id="model error"
        ),
        pytest.param(
            {},
            [echo("a", text="Plan."), {"error": "bad_request"}],
            "failed/model_error",
            "Plan.",
            id="model error after work",
        ),
    ],
)
async def test_endings(probe: Installation, agent, replies, expected, output) -> None:
    run = await probe.start(task(agent=agent), script(*replies))
    result = await probe.gateway.result(run)
    assert f"{result.outcome}/{result.reason}" == expected
    assert result.output == output
    assert result.explanation
    await books_agree(probe, result)
    for message in await conversation(probe, result.transcript):
        assert message.blocks  # an empty reply leaves no empty message behind


async def test_a_nudge_says_what_is_wanted_and_comes_once(probe: Installation) -> None:
    result = await probe.run(task(), script(EMPTY, DONE))
    assert [text for text in await shown(probe, result) if NUDGE_PROMPT in text] == [
        f"user: {NUDGE_PROMPT}"
    ]


@pytest.mark.long
async def test_a_forced_text_is_an_iteration_of_its_own_without_tools(probe: Installation) -> None:
    usage = {"input_tokens": 40, "output_tokens": 5, "cache_read_tokens": 30}
    result = await probe.run(
        task(agent={"max_iterations": 1}), script(echo("a"), {**FORCED, "usage": usage})
    )
    first, forced = result.iterations
    assert (first.break_reason, forced.break_reason) == ("max_iterations", "max_iterations")
    assert (first.phase, forced.phase) == ("executing", "wrapping_up")
    assert (first.tools_offered > 0, forced.tools_offered) == (True, 0)
    assert (first.tools_ref is None, forced.tools_ref) == (False, None)
    assert forced.usage.cache_read_tokens == 30
    assert result.spend.usage.cache_read_tokens == 30
    assert f"user: {FORCED_TEXT_PROMPT}" in await shown(probe, result)
    assert result.exhausted is not None and result.exhausted.dimension == "max_iterations"


@pytest.mark.long
async def test_text_beside_calls_stays_in_the_transcript(probe: Installation) -> None:
    result = await probe.run(task(), script(echo("a", text="First I look."), DONE))
    assert "assistant: First I look." in await shown(probe, result)
    assert result.output == "Done."


async def test_records_and_result_name_what_happened(probe: Installation) -> None:
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_write_tokens": 7}
    said = script(
        echo("a", usage=usage),
        {"text": "Done.", "usage": {"input_tokens": 130, "output_tokens": 5}},
        price={"input_per_million": 3, "output_per_million": 15},
    )
    run = await probe.start(task(), said)
    result = await probe.gateway.result(run)
    first, last = result.iterations
    assert (first.index, first.stop_reason, last.stop_reason) == (1, "tool_use", "end_turn")
    assert first.model is not None and first.model.startswith("scripted:sha256:")
    assert first.request_id is not None and first.request_id.startswith("req_scripted_")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (100, 20)
    assert first.usage.cache_write_5m_tokens == 7
    assert str(first.cost_usd) == "0.00062625"
    assert [(row.name, row.outcome) for row in first.calls] == [("probe.echo", "ok")]
    assert (first.has_tool_calls, last.has_tool_calls) == (True, False)
    assert first.started_at is not None and first.transcript and first.tools_offered > 5
    assert (first.break_reason, last.break_reason) == (None, None)
    assert last.transcript == result.transcript
    assert (result.tools_used, result.iteration_count) == ({"probe.echo": 1}, 2)
    assert result.models_used == (first.model,)
    assert (result.model, result.request_id) == (first.model, result.iterations[-1].request_id)
    assert (result.spend.tokens, result.spend.tool_calls) == (262, 1)
    assert result.spend.by_phase["executing"]["model_calls"] == 2
    assert result.quality_met and not result.partial
    assert await probe.records(run) == list(result.iterations)


@pytest.mark.long
async def test_every_call_has_a_result_in_call_order(probe: Installation) -> None:
    asked = calls(
        call("probe.echo", text="one"),
        call("no.such"),
        call("probe.fail", text="oops"),
        call("probe.slow"),
        call("probe.echo", text="two"),
    )
    result = await probe.run(task(tools={"access": "full"}), script(asked, DONE))
    found = await results(probe, result)
    assert [(block.name, block.outcome) for block in found] == [
        ("probe.echo", "ok"),
        ("no.such", "error"),
        ("probe.fail", "error"),
        ("probe.slow", "error"),
        ("probe.echo", "ok"),
    ]
    assert (found[0].text, found[4].text) == ("one", "two")
    assert "not a tool you can call" in found[1].text
    assert "ValueError: oops" in found[2].text
    assert "did not finish within 0.2 s" in found[3].text
