"""Settings without effect are named; those that are off, or have an effect, are not."""

import pytest
from pydantic import JsonValue

from perdure.submission.loading import load_data, revise
from perdure.submission.types import Flags, Surroundings
from perdure.submission.validation import IDLE, idle_notes

AROUND = Surroundings(folder=None, default_model="claude-x")
RUBRIC: JsonValue = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]


def notes(**fields: JsonValue) -> tuple[str, ...]:
    task: JsonValue = {"kind": "refine", "goal": "g", "rubric": RUBRIC, **fields}
    return load_data(task, surroundings=AROUND).notes


@pytest.mark.parametrize(
    ("fields", "path", "value"),
    [
        ({"budget": {"depth": 2}}, "budget.depth", "2"),
        ({"models": {"critic": ["a", "b"]}}, "models.critic", '["a", "b"]'),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_setting_without_effect_is_named_with_its_value(
    fields: dict[str, JsonValue], path: str, value: str
) -> None:
    assert notes(**fields) == (f"{path}: {value} has no effect in this version: {IDLE[path]}.",)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"recall": False, "learn": False},
        {"refine": {"plan": "on", "classify": "off"}},
        {"refine": {"skip_eval_confidence": 0.5}},
        {"models": {"executor": "claude-x", "evaluator": "claude-y", "planner": "claude-z"}},
        {"tools": {"mcp": ["git"]}},
    ],
    ids=["nothing given", "off", "planned", "has an effect", "roles that work", "no servers"],
)
def test_nothing_is_said_of_what_is_off_or_works(fields: dict[str, JsonValue]) -> None:
    assert notes(**fields) == ()


def test_flags_are_looked_at_too() -> None:
    flags = Flags(sets=("models.worker=x", "models.repair=y"))
    task: JsonValue = {"kind": "refine", "goal": "g", "rubric": RUBRIC}
    told = load_data(task, flags, surroundings=AROUND).notes
    assert [note.partition(":")[0] for note in told] == ["models.worker", "models.repair"]


def test_several_are_one_line_each() -> None:
    given: dict[str, JsonValue] = {"models": {"worker": "a", "repair": "b", "critic": "c"}}
    told = idle_notes(given)
    assert len(told) == 3
    assert all("\n" not in note for note in told)


AGENT: dict[str, JsonValue] = {
    "profile": "delegate",
    "system": "Be brief.",
    "messages": [{"role": "user", "text": "Hello."}],
    "transcript": "a" * 64,
    "temperature": 0.5,
    "max_iterations": 3,
}
MODELS: dict[str, JsonValue] = dict.fromkeys(
    ("executor", "evaluator", "planner", "manager", "worker", "critic"), "m"
)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("agent", {"models": "evaluator planner manager worker critic"}),
        ("refine", {"agent": "messages transcript", "models": "manager worker critic"}),
        ("roles", {"agent": "system messages transcript", "models": "planner"}),
        ("delegation", {"agent": "profile system messages transcript", "models": "planner"}),
    ],
)
def test_each_kind_names_what_nothing_of_it_reads(kind: str, named: dict[str, str]) -> None:
    told = idle_notes({"kind": kind, "agent": AGENT, "models": MODELS})
    expected = {f"{block}.{name}" for block, names in named.items() for name in names.split()}
    assert {note.partition(":")[0] for note in told} == expected


def test_a_long_text_is_cut_to_one_short_line() -> None:
    (told,) = idle_notes({"kind": "roles", "agent": {"system": "Be brief.\n" * 99}})
    assert told.startswith("agent.system: Be brief. Be brief.")
    assert (len(told.splitlines()), len(told) < 160) == (1, True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"recall": True, "learn": True}, []),
        ({"recall": True, "skills": ["s"]}, []),
        ({"skills": ["s"]}, ["skills"]),
        ({"recall": False, "skills": ["s"]}, ["skills"]),
    ],
    ids=["memory", "skills with it", "skills alone", "skills without it"],
)
def test_an_agent_run_has_memory_where_it_says_so(
    given: dict[str, JsonValue], named: list[str]
) -> None:
    told = idle_notes({"kind": "agent", "goal": "g", **given})
    assert [note.partition(":")[0] for note in told] == named
    assert idle_notes({"kind": "refine", "goal": "g", **given}) == ()


def test_a_stage_may_be_a_delegation_whose_roles_are_called() -> None:
    given: dict[str, JsonValue] = {"models": {"manager": "a", "worker": "b", "planner": "c"}}
    told = idle_notes({"kind": "roles", "goal": "g", **given})
    assert [note.partition(":")[0] for note in told] == ["models.planner"]


def test_a_fork_is_told_by_the_kind_and_the_memory_of_its_run() -> None:
    def told(task: JsonValue, *sets: str) -> tuple[str, ...]:
        spec = load_data(task, surroundings=AROUND).spec
        return revise(spec, Flags(sets=sets), surroundings=AROUND).notes

    manager: JsonValue = {"kind": "delegation", "goal": "g"}
    assert told(manager, "models.worker=x", "budget.depth=2") == ()
    assert len(told(manager, "models.planner=x")) == 1
    agent: JsonValue = {"kind": "agent", "goal": "g"}
    assert len(told(agent, "skills=[s]", "models.worker=x")) == 2
    assert told({"kind": "agent", "goal": "g", "recall": True}, "skills=[s]") == ()
