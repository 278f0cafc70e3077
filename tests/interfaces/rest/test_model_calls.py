"""What a model was told and what it said, call by call."""

from rest import Rest

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}


async def test_calls_have_prompt_and_reply(rest: Rest) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    answer = await rest.client.get(f"{LOOPS}/{run}/iterations/1/calls")
    assert answer.status_code == 200, answer.text
    (call,) = answer.json()["items"]
    assert (call["role"], call["state"], call["stop_reason"]) == (
        "executor",
        "answered",
        "end_turn",
    )
    assert call["system"]
    assert "say something" in call["prompt"][0]["blocks"][0]["text"]
    assert call["reply"]["blocks"][0]["text"] == "an answer"
    assert call["usage"]["output_tokens"] > 0
    none = (await rest.client.get(f"{LOOPS}/{run}/iterations/2/calls")).json()
    assert none["items"] == []
    assert (await rest.client.get(f"{LOOPS}/nobody/iterations/1/calls")).status_code == 404
