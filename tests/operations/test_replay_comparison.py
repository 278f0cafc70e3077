"""What the witness calls a difference: words and numbers, not fields that are merely newer."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from recordings import FOLDER

from perdure.about import VERSION
from perdure.operations import replay as replaying

Change = Callable[[Any], None]


def changed(scene: str, step: str, change: Change) -> bytes:
    """A recorded history in which the request of the first `step` is another one."""
    history = json.loads((FOLDER / VERSION / f"{scene}.json").read_text())
    for event in history["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes", {})
        rolled = event.get("workflowExecutionContinuedAsNewEventAttributes")
        ended = event.get("workflowExecutionCompletedEventAttributes")
        named = scheduled.get("activityType", {}).get("name") == step
        if named or (step == "roll" and rolled) or (step == "result" and ended):
            holder = scheduled.get("input") or (rolled or {}).get("input") or ended["result"]
            (payload,) = holder["payloads"]
            value = json.loads(base64.b64decode(payload["data"]))
            change(value)
            payload["data"] = base64.b64encode(json.dumps(value).encode()).decode()
            return json.dumps(history).encode()
    raise AssertionError(f"{scene} has no {step}")


async def problem(history: bytes) -> str | None:
    """What a replay says of a history."""
    (found,) = [item async for item in replaying.replay({"it": history}, None)]
    return found.problem


def _status(change: Change) -> Change:
    def inside(request: Any) -> None:
        status = json.loads(request["status"])
        change(status)
        request["status"] = json.dumps(status)

    return inside


@pytest.mark.parametrize(
    ("scene", "step", "change", "why"),
    [
        pytest.param("refine_escalated", "call_model", lambda v: v.update(model="other"),
                     'call_model (number 1): model was "other", now "scripted:', id="a word"),
        pytest.param("agent_rolled-1", "roll", lambda v: v["state"].update(rolls=7),
                     "the continued state (number 1): state.rolls was 7, now 1", id="a number"),
        pytest.param("refine_plateau", "result", lambda v: v.update(explanation="Done."),
                     'the result (number 1): explanation was "Done."', id="the result"),
        pytest.param("agent_budget_end", "finish", _status(lambda v: v.update(iteration=9)),
                     "finish (number 1): status.iteration was 9, now", id="inside a text"),
        pytest.param("agent_rolled-2", "roll", lambda v: v["state"]["records"].pop(),
                     "the continued state (number 1): state.records was [", id="a shorter list"),
    ],
)  # fmt: skip
async def test_another_word_is_a_difference(
    scene: str, step: str, change: Change, why: str
) -> None:
    found = await problem(changed(scene, step, change))
    assert found is not None
    assert found.startswith(why)


@pytest.mark.parametrize(
    ("scene", "step", "change"),
    [
        pytest.param("agent_rolled-1", "roll", lambda v: v["state"].pop("chain_index"),
                     id="in a state"),
        pytest.param("agent_budget_end", "finish", _status(lambda v: v.pop("children")),
                     id="in a text"),
        pytest.param("refine_plateau", "result", lambda v: v.pop("unread_input"), id="in a result"),
    ],
)  # fmt: skip
async def test_a_field_newer_than_the_recording_is_none(
    scene: str, step: str, change: Change
) -> None:
    assert await problem(changed(scene, step, change)) is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param(lambda v: v["events"][0].update(at="2020-01-01T00:00:00Z"), True,
                     id="an instant"),
        pytest.param(lambda v: v.update(elapsed_s=7.5), True, id="a duration"),
        pytest.param(lambda v: v.update(iteration=9), False, id="a number"),
        pytest.param(lambda v: v["events"][0].update(type="other"), False, id="a word"),
        pytest.param(lambda v: v["events"][0].update(at="yesterday"), False, id="no instant"),
    ],
)  # fmt: skip
async def test_clocks_may_differ_where_a_worker_was_lost(
    change: Change, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = changed("agent_budget_end", "finish", _status(change))
    assert await problem(history) is not None
    monkeypatch.setattr(replaying, "_worker_was_lost", lambda history: True)
    assert (await problem(history) is None) is same
