"""Every recorded history of every version replays: same commands, same words, same end."""

import json
from dataclasses import replace

import pytest
from ends import TOLD
from kept_teams import ALL_SCENES
from recordings import FOLDER, Recording, departures, recordings

from perdure.about import VERSION

ALL = recordings()
NAMED = {one.name: one for one in ALL}
MOST_BYTES = 160_000
RULE = (
    "Runs under way would break. While {version} is unreleased, record anew with `make record`; "
    "after a release, keep the old behaviour behind a patch or behind `rules`."
)


@pytest.mark.long
async def test_this_code_plays_every_history_as_it_was() -> None:
    departed = [f"{name}: {why}" async for name, why in departures(ALL)]
    assert not departed, "\n".join([RULE.format(version=VERSION), *departed])


def test_every_scene_is_recorded() -> None:
    present = {name.partition("/")[2] for name in NAMED if name.startswith(f"{VERSION}/")}
    missing = [name for name in ALL_SCENES if name not in present and f"{name}-1" not in present]
    assert not missing, f"run `make record`: there is no history of {', '.join(missing)}"
    assert {"agent_rolled-1", "agent_rolled-2", "refine_files_rolled-2"} <= present


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_recordings_are_small_and_tell_nothing_of_their_machine(one: Recording) -> None:
    text = one.history.decode()
    assert len(text) <= MOST_BYTES
    assert not any(place in text for place in ("/tmp/", "/root/", "/home/", "/work/"))


@pytest.mark.parametrize(
    ("name", "query", "field", "value"),
    [
        ("agent_budget_end", "status", "explanation", "The run ended."),
        ("agent_rolled-2", "status", "iteration", 1),
        ("refine_regression_abort", "status", "best", {"iteration": 1, "score": 0.6}),
        ("refine_escalated", "status", "last_event", 2),
        ("refine_stopped_now", "status", "reason", "wall_time"),
        ("agent_with_tools", "costs", "model_calls", 9),
        ("refine_budget_raised", "costs", "cost_usd", "0.5"),
    ],
)
async def test_another_end_is_seen(name: str, query: str, field: str, value: object) -> None:
    one = NAMED[f"{VERSION}/{name}"]
    assert one.expected is not None
    told = {**one.expected, query: {**one.expected[query], field: value}}
    ((found, why),) = [it async for it in departures([replace(one, expected=told)])]
    assert found == one.name
    assert why.startswith(f"{query} tells something else at its end: {field}")


@pytest.mark.long
@pytest.mark.parametrize("query", TOLD)
async def test_every_kept_answer_is_compared(query: str) -> None:
    kept = [one for one in ALL if one.expected is not None and one.expected[query]]
    assert len(kept) >= len(ALL_SCENES)
    wrong = [replace(one, expected={**one.expected, query: _other(one, query)}) for one in kept]  # type: ignore[dict-item]
    assert len([name async for name, _ in departures(wrong)]) == len(kept)


def _other(one: Recording, query: str) -> object:
    assert one.expected is not None
    match query, one.expected[query]:
        case "events", list() as events:
            return [*events[:-1], {**events[-1], "seq": 99_999}]
        case "history", list() as records:
            return [*records[:-1], {**records[-1], "index": 99}]
        case "costs", dict() as costs:
            return {**costs, "model_calls": 99}
        case _, dict() as status:
            return {**status, "elapsed_s": -1.0}
        case _, answer:
            raise AssertionError(f"{query} told {answer!r}")


def test_histories_are_compact_json() -> None:
    for path in FOLDER.rglob("*.json"):
        text = path.read_text()
        assert text == json.dumps(json.loads(text), separators=(",", ":")) + "\n", path
