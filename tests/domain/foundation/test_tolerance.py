"""What another version added is left out; what is wrong stays wrong."""

import json
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from perdure.domain.evaluation.scores import Finding
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tolerance import read, read_as, read_value
from perdure.domain.run.events import Event
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC
from perdure.domain.turns.entries import (
    Entry,
    ResultsEntry,
    SayEntry,
    StageEntry,
    StageShown,
    ToolResultEntry,
)
from perdure.domain.turns.turn import CallOutcome, TurnState


class Leaf(FrozenModel):
    kind: Literal["leaf"] = "leaf"
    size: int = 0


class Twig(FrozenModel):
    kind: Literal["twig"] = "twig"
    leaves: tuple[Leaf, ...] = ()


class Tree(FrozenModel):
    name: str = ""
    parts: dict[str, Annotated[Leaf | Twig, Field(discriminator="kind")]] = {}
    labels: dict[str, str] = {}


SHOWN = StageShown(iteration=1, name="coder", role="coder")
TREE = Tree(
    name="oak",
    parts={"leaf": Leaf(size=3), "b": Twig(leaves=(Leaf(size=1), Leaf(size=2)))},
    labels={"new": "stays"},
)


@given(st.sets(st.sampled_from(["top", "leaf", "twig", "deep"])))
def test_unknown_fields_are_left_out_wherever_they_are(places: set[str]) -> None:
    data = json.loads(TREE.model_dump_json())
    spots = {
        "top": data,
        "leaf": data["parts"]["leaf"],
        "twig": data["parts"]["b"],
        "deep": data["parts"]["b"]["leaves"][1],
    }
    for place in places:
        spots[place] |= {"new": {"nested": [1]}, "other": None}
    assert read(Tree, json.dumps(data)) == TREE


def _grown(value: JsonValue) -> JsonValue:
    """The same with a field more in each object."""
    match value:
        case dict():
            return {**{name: _grown(inner) for name, inner in value.items()}, "novelty": "x"}
        case list():
            return [_grown(inner) for inner in value]
        case _:
            return value


@pytest.mark.parametrize(
    "entry",
    [
        SayEntry(type="say", text="go on"),
        ResultsEntry(
            type="results",
            results=(
                ToolResultEntry(call_id="a", name="look"),
                ToolResultEntry(call_id="b", name="look", note="twice"),
            ),
        ),
        StageEntry(type="stage", iteration=1, place=1, of=1, past=(SHOWN, SHOWN)),
    ],
    ids=lambda entry: entry.type,
)
def test_an_entry_of_a_newer_version_is_read_whatever_its_fields_are_called(entry: Entry) -> None:
    """The field `results` is in the entry of the type `results`."""
    entries = TypeAdapter(list[Entry])
    data = entries.dump_json([entry, entry])
    assert read_as(entries, json.dumps(_grown(json.loads(data)))) == [entry, entry]


@pytest.mark.parametrize(
    "data",
    [{"name": 3}, {"name": 3, "new": 1}, {"parts": {"a": {"kind": "root"}}, "new": 1}],
    ids=["wrong", "wrong-and-new", "unknown-tag"],
)
def test_what_is_wrong_stays_wrong(data: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        read(Tree, json.dumps(data))


Hue = Literal["green", "red"]


class Fruit(FrozenModel):
    type: Literal["apple", "pear"]
    hue: Hue = "green"


class Basket(FrozenModel):
    ripe: Hue | None = None
    hues: dict[str, Fruit] = {}
    fruit: tuple[Fruit, ...] = ()
    worst: Hue = "red"


APPLE, PEAR = {"type": "apple"}, {"type": "pear", "hue": "red"}


@pytest.mark.parametrize(
    ("given", "read_as_"),
    [
        pytest.param({"ripe": "blue"}, {}, id="one that may be left out"),
        pytest.param({"worst": "blue", "new": 1}, {}, id="with an unknown field"),
        pytest.param(
            {"fruit": [APPLE, {"type": "quince"}, PEAR, {"type": "fig", "hue": "blue"}]},
            {"fruit": [APPLE, PEAR]},
            id="things of a list",
        ),
        pytest.param(
            {"fruit": [{**APPLE, "hue": "blue"}]}, {"fruit": [APPLE]}, id="a part of such a thing"
        ),
        pytest.param(
            {"hues": {"a": {"type": "pear", "hue": "blue"}}},
            {"hues": {"a": {"type": "pear"}}},
            id="deep",
        ),
    ],
)
def test_values_that_a_newer_version_added_are_left_out(
    given: dict[str, object], read_as_: dict[str, object]
) -> None:
    assert read(Basket, json.dumps(given)) == Basket.model_validate_json(json.dumps(read_as_))


def test_a_value_that_is_needed_and_not_known_is_an_error_that_names_it() -> None:
    with pytest.raises(ValidationError, match="quince"):
        read(Basket, json.dumps({"hues": {"a": {"type": "quince"}}}))


@pytest.mark.parametrize(
    ("model", "written", "field", "read_as_"),
    [
        pytest.param(
            RunResult,
            {"id": "r", "kind": "agent", "outcome": "postponed", "reason": "r", "explanation": "e"},
            "outcome",
            "failed",
            id="outcome of a run",
        ),
        pytest.param(
            RunResult,
            {
                **{"id": "r", "kind": "agent", "outcome": "postponed", "reason": "r"},
                **{"explanation": "e", "type": "result", "new": {"nested": 1}},
            },
            "outcome",
            "failed",
            id="with an unknown field",
        ),
        pytest.param(
            Finding,
            {"id": "f", "dimension": "d", "title": "t", "severity": "trifle"},
            "severity",
            "important",
            id="severity",
        ),
        pytest.param(
            CallOutcome,
            {"call_id": "c", "outcome": "postponed"},
            "outcome",
            "error",
            id="outcome of a tool call",
        ),
    ],
)
def test_for_a_needed_value_that_a_newer_version_added_the_most_careful_known_one_stands(
    model: type[BaseModel], written: dict[str, object], field: str, read_as_: str
) -> None:
    """After a rollback a run that the newer version ended can still be read."""
    assert getattr(read(model, json.dumps(written)), field) == read_as_


def test_an_event_of_a_newer_version_hides_no_other() -> None:
    known = {"seq": 1, "at": "2026-01-01T00:00:00Z", "run": "r", "iteration": 0, "type": "ended"}
    told = json.dumps([{**known, "type": "sang"}, {**known, "seq": 2}])
    events = read_as(TypeAdapter(list[Event]), told)
    assert [event.seq for event in events] == [2]


def test_a_specification_of_another_version_is_read_and_a_file_stays_strict() -> None:
    given = {"kind": "agent", "goal": "g", "novelty": 1, "metadata": {"label": "a", "mine": "b"}}
    with pytest.raises(ValidationError):
        RUN_SPEC.validate_python(given)
    spec = read_as(RUN_SPEC, json.dumps(given))
    assert spec.metadata.model_extra == {"mine": "b"}


SCORED = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
SPECS: dict[str, dict[str, object]] = {
    "agent": {},
    "refine": {"rubric": SCORED},
    "roles": {"roles": {"definition": "harness"}},
    "delegation": {"rubric": SCORED},
}
PARTS = ["whole", "own", "models", "budget"]


@pytest.mark.parametrize("kind", SPECS)
@given(places=st.sets(st.sampled_from(PARTS)), told=st.sets(st.sampled_from(["x", "y"])))
def test_a_kind_that_is_called_like_a_part_hides_no_unknown_field(
    kind: str, places: set[str], told: set[str]
) -> None:
    """A validation calls the whole `agent`, and its part `agent.agent`."""
    spec = RUN_SPEC.validate_python({"kind": kind, "goal": "g", **SPECS[kind]})
    data = json.loads(spec.model_dump_json())
    spots = {"whole": data, "own": data[kind], "models": data["models"], "budget": data["budget"]}
    for place in places:
        spots[place] |= {f"novel_{name}": name for name in told}
    assert read_as(RUN_SPEC, json.dumps(data)) == spec


@pytest.mark.parametrize("places", [("entry",), ("result",), ("entry", "result")])
def test_an_entry_that_is_called_like_its_list_hides_no_unknown_field(
    places: tuple[str, ...],
) -> None:
    """As of tool results that a run carries into its next execution."""
    entry = ResultsEntry(type="results", results=(ToolResultEntry(call_id="a", name="t"),))
    state = TurnState(entries=[entry])
    data = json.loads(state.model_dump_json())
    written = data["entries"][0]
    spots = {"entry": written, "result": written["results"][0]}
    for place in places:
        spots[place]["novelty"] = "x"
    assert read(TurnState, json.dumps(data)) == state


def test_a_plain_union_is_read_too() -> None:
    adapter: TypeAdapter[tuple[Leaf, ...]] = TypeAdapter(tuple[Leaf, ...])
    assert read_as(adapter, '[{"size": 1, "new": 2}]') == (Leaf(size=1),)


def test_a_value_that_came_decoded_is_read_in_the_same_way() -> None:
    assert read_value(Twig, {"leaves": [{"size": 2}]}) == Twig(leaves=(Leaf(size=2),))
    newer = {"leaves": [{"size": 2, "novelty": "x"}], "novelty": "x"}
    assert read_value(Twig, newer) == Twig(leaves=(Leaf(size=2),))
    with pytest.raises(ValidationError, match="valid integer"):
        read_value(Twig, {"leaves": [{"size": "large"}], "novelty": "x"})
