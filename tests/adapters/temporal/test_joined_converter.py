"""Perdure's converter beside one of theirs: their values travel as without it, ours as ours."""

import datetime
import enum
import typing
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    PayloadConverter,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from perdure.adapters.temporal.data_converter import PerdurePayloadConverter
from perdure.adapters.temporal.joined_converter import beside, is_joined, joined
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.task_start import TaskInput


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Number(enum.IntEnum):
    ONE = 1


@dataclass
class Item:
    number: int
    names: list[str] = field(default_factory=list)
    colour: Colour | None = None


@dataclass
class Counted:
    number: int

    def __post_init__(self) -> None:
        self.number += 1


class Order(typing.TypedDict):
    item: str
    number: int


class Pair(typing.NamedTuple):
    number: int
    name: str


class Model(BaseModel):
    number: int
    price: Decimal = Decimal(1)


class Plain:
    """A class that no converter knows."""

    def __init__(self) -> None:
        self.number = 1


VALUES: Mapping[str, tuple[object, Any]] = {
    "not a number": (float("nan"), float),
    "a dataclass": (Item(1, ["x"], Colour.RED), Item),
    "a field too many": ({"number": 1, "names": [], "other": 1}, Item),
    "a field that is missing": ({"names": []}, Item),
    "text for a number of a dataclass": ({"number": "1"}, Item),
    "a fraction for a number of a dataclass": ({"number": 1.5}, Item),
    "null for a number of a dataclass": ({"number": None}, Item),
    "a dataclass that counts": (Counted(1), Counted),
    "a typed dict": ({"item": "bottle", "number": 1}, Order),
    "a typed dict that lacks a key": ({"item": "bottle"}, Order),
    "a typed dict with a key more": ({"item": "bottle", "number": 1, "more": 1}, Order),
    "a named tuple": (Pair(1, "x"), Pair),
    "half a character": ("\ud800", str),
    "half a character within": ({"text": ["\udc00"]}, None),
    "keys that are numbers": ({1: 2}, dict[int, int]),
    "a tuple": ((1, 2), None),
    "a set": ({1}, set[int]),
    "bytes": (b"x", bytes),
    "a time": (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime),
    "a day": (datetime.date(2020, 1, 1), datetime.date),
    "a span of time": (datetime.timedelta(seconds=3), datetime.timedelta),
    "an id": (uuid.UUID(int=1), uuid.UUID),
    "an enumeration": (Colour.RED, Colour),
    "an enumeration of numbers": (Number.ONE, Number),
    "a list of dataclasses": ([Item(1)], list[Item]),
    "a mapping": ({"a": 1}, Mapping[str, int]),
    "a sequence": ([1], Sequence[int]),
    "a literal": ("a", typing.Literal["a"]),
    "one of two": (1, int | str),
    "nothing or a dataclass": (None, Item | None),
    "a large number": (10**30, int),
    "a list of text for numbers": (["1"], list[int]),
    "a number for text": (1, str),
    "text for a number": ("5", int),
    "a fraction for a number": (1.5, int),
    "a whole fraction for a number": (1.0, int),
    "a number for yes or no": (1, bool),
    "nothing for text": (None, str),
    "a price": (Decimal("1.50"), Decimal),
    "an object": (Plain(), None),
    "an object's fields": ({"number": 1}, Plain),
    "a model of theirs": (Model(number=1), Model),
    "no model of theirs": ({"number": "1", "more": 1}, Model),
    "a new type": (1, typing.NewType("Count", int)),
}  # fmt: skip


class Loud(DefaultPayloadConverter):
    """One of theirs that says who encoded."""

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        made = super().to_payloads(values)
        for payload in made:
            payload.metadata["by"] = f"them, {len(values)} at once".encode()
        return made


KINDS: tuple[type[PayloadConverter], ...] = (
    DefaultPayloadConverter, PydanticPayloadConverter, Loud,
)  # fmt: skip


def _both_ways(converter: PayloadConverter, value: object, hint: Any) -> object:
    """What comes of a value: its payload, then what is read of it; or the error's words."""
    try:
        (payload,) = converter.to_payloads([value])
    except Exception as error:
        return type(error), str(error)
    try:
        (read,) = converter.from_payloads([payload], None if hint is None else [hint])
    except Exception as error:
        return payload, type(error), str(error)
    return payload, type(read), repr(read)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("value", "hint"), VALUES.values(), ids=VALUES.keys())
def test_their_values_travel_as_without_us(
    kind: type[PayloadConverter], value: object, hint: Any
) -> None:
    made = joined(replace(DataConverter.default, payload_converter_class=kind))
    assert _both_ways(made.payload_converter, value, hint) == _both_ways(kind(), value, hint)


LIMITS = BudgetLimits(cost_usd=Decimal("0.05"))
OURS: Mapping[str, tuple[object, Any]] = {
    "a model": (LIMITS, BudgetLimits),
    "a list": ([LIMITS], list[BudgetLimits]),
    "a list with values of theirs": ([1, {"limits": LIMITS}], list[int | dict[str, BudgetLimits]]),
    "one or nothing": (LIMITS, BudgetLimits | None),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("value", "hint"), OURS.values(), ids=OURS.keys())
def test_our_models_travel_as_ours(kind: type[PayloadConverter], value: object, hint: Any) -> None:
    made = beside(kind)()
    assert _both_ways(made, value, hint) == _both_ways(PerdurePayloadConverter(), value, hint)


def test_of_several_values_each_goes_its_way() -> None:
    made = beside(Loud)()
    theirs, ours, more = made.to_payloads([Item(1), LIMITS, Item(2)])
    assert [one.metadata.get("by") for one in (theirs, ours, more)] == [
        b"them, 1 at once", None, b"them, 1 at once",
    ]  # fmt: skip
    read = made.from_payloads([theirs, ours, more], [Item, BudgetLimits])
    assert read == [Item(1), LIMITS, {"number": 2, "names": [], "colour": None}]
    assert [one.metadata["by"] for one in made.to_payloads([1, 2])] == [b"them, 2 at once"] * 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_task_is_taken_as_their_client_wrote_it(kind: type[PayloadConverter]) -> None:
    made = beside(kind)()
    (read,) = made.from_payloads(made.to_payloads([{"goal": "Write."}]), [TaskInput])
    assert isinstance(read, TaskInput)
    assert read.task == {"goal": "Write."}


class Bound(CompositePayloadConverter, WithSerializationContext):
    """One of theirs that is told whose payloads it converts."""

    workflow = ""

    def __init__(self) -> None:
        super().__init__(*DefaultPayloadConverter.default_encoding_payload_converters)

    def with_context(self, context: SerializationContext) -> "Bound":
        assert isinstance(context, WorkflowSerializationContext)
        bound = Bound()
        bound.workflow = context.workflow_id
        return bound

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        return super().to_payloads([f"{value} of {self.workflow}" for value in values])


def test_their_converter_is_told_its_context() -> None:
    converter = joined(replace(DataConverter.default, payload_converter_class=Bound))
    context = WorkflowSerializationContext(namespace="default", workflow_id="order-1")
    bound = converter.with_context(context).payload_converter
    (payload,) = bound.to_payloads(["mail"])
    assert payload.data == b'"mail of order-1"'


def test_what_is_joined_stays_so() -> None:
    once = joined(DataConverter.default)
    assert joined(once).payload_converter_class is once.payload_converter_class
    assert (is_joined(once), is_joined(DataConverter.default)) == (True, False)
