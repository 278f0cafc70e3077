"""Parameters of activities that the data converter of their worker cannot read."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import pytest
from agent_runs import results
from installation import Installation
from pydantic import BaseModel, Field, create_model
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.worker import Worker

from perdure.domain.foundation.errors import InvalidInput
from perdure.embedding.activity_tools import unreadable_part
from perdure.temporal import PerdurePlugin, activity_check, activity_tool


class Colour(Enum):
    """An enumeration that is no text."""

    RED = "red"


class Size(StrEnum):
    """One that is a text."""

    SMALL = "small"


@dataclass
class Part:
    """A type of their own."""

    price: Decimal
    parts: "list[Part] | None" = None


@dataclass
class Plan:
    """One whose fields can be read."""

    due: datetime
    tags: set[str]


class Model(BaseModel):
    """One that makes its values itself."""

    price: Decimal


Price = NewType("Price", Decimal)
UNREADABLE: list[tuple[Any, type, Any]] = [
    (Colour, Colour, "red"), (Decimal, Decimal, "1.50"), (date, date, "2026-01-02"),
    (bytes, bytes, "abc"), (Path, Path, "/a"), (Colour | None, Colour, "red"),
    (list[Decimal], Decimal, ["1.5"]), (dict[str, Colour], Colour, {"a": "red"}),
    (Part, Decimal, {"price": "1.5"}), (list[Part], Decimal, [{"price": "1.5"}]),
]  # fmt: skip
READABLE: list[tuple[Any, Any]] = [
    (str, "a"), (int, 1), (float, 1.5), (bool, True), (Any, {"a": 1}), (Size, "small"),
    (datetime, "2026-01-02T03:04:05Z"), (uuid.UUID, str(uuid.UUID(int=1))),
    (Literal["a"], "a"), (int | str, "a"), (set[str], ["a"]), (tuple[int, str], [1, "a"]),
    (Plan, {"due": "2026-01-02T03:04:05Z", "tags": ["a"]}),
    (dict[int, Size], {"1": "small"}), (Sequence[str], ["a"]), (str | None, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "wrong", "given"), UNREADABLE, ids=str)
def test_what_the_default_converter_cannot_read(kind: Any, wrong: type, given: Any) -> None:
    assert unreadable_part(kind) is wrong
    with pytest.raises((TypeError, ValueError)):
        _read(kind, given, DataConverter.default)
    assert _read(kind, given, pydantic_data_converter) == _meant(kind, given)


@pytest.mark.parametrize(("kind", "given"), READABLE, ids=str)
def test_what_the_default_converter_reads(kind: Any, given: Any) -> None:
    assert unreadable_part(kind) is None
    assert _read(kind, given, DataConverter.default) == _meant(kind, given)


def test_a_named_type_is_what_it_stands_for() -> None:
    assert unreadable_part(Price) is Decimal


def test_a_model_reads_its_own_fields() -> None:
    assert unreadable_part(Model) is None


def _meant(kind: Any, given: Any) -> Any:
    """The value that the tool's schema takes."""
    return _taken(kind, given).x  # type: ignore[attr-defined]


def _taken(kind: Any, given: Any) -> BaseModel:
    return create_model("Taken", x=(kind, ...)).model_validate({"x": given})


def _read(kind: Any, given: Any, converter: DataConverter) -> Any:
    """The value that the activity gets when a loop sends it."""
    sent = _taken(kind, given).model_dump(mode="json")["x"]
    payloads = DataConverter.default.payload_converter.to_payloads([sent])
    (value,) = converter.payload_converter.from_payloads(payloads, [kind])
    return value


@activity.defn
async def paint(colour: Annotated[Colour, Field(description="which")], price: Decimal) -> str:
    """Paint something."""
    return f"{colour.name} for {price + 1}"


@activity.defn
async def fits(output: str, limit: Decimal) -> bool:
    """Whether an output is short."""
    return len(output) < limit


@pytest.mark.parametrize(
    ("brought", "words"),
    [
        ({"tools": [activity_tool(paint)]}, "'colour' of the activity paint, which is the tool"),
        ({"checks": [activity_check(fits)]}, "'limit' of the activity fits, which is the check"),
    ],
    ids=["a tool", "a check"],
)
async def test_a_worker_that_could_not_read_the_arguments_is_refused(
    bare: Installation, brought: dict[str, Any], words: str
) -> None:
    plugin = PerdurePlugin(bare.settings, **brought)
    client = await Client.connect(bare.address, plugins=[plugin])
    with pytest.raises(InvalidInput, match=words) as refused:
        Worker(client, task_queue="theirs", activities=[paint, fits])
    assert "pydantic_data_converter" in str(refused.value)
    Worker(client, task_queue="theirs", activities=[Others().other])


class Others:
    """A worker that has none of these activities is not concerned."""

    @activity.defn
    async def other(self) -> None:
        """Nothing."""


async def test_the_converter_of_pydantic_reads_them(bare: Installation) -> None:
    plugin = PerdurePlugin(bare.settings, tools=[activity_tool(paint)])
    client = await Client.connect(
        bare.address, plugins=[plugin], data_converter=pydantic_data_converter
    )
    run = queue = f"paint-{uuid.uuid4().hex[:8]}"
    given = {"colour": "red", "price": "1.50"}
    ask = {"tool_calls": [{"name": "paint", "arguments": given}]}
    model = await bare.script({"replies": [ask, {"text": "Done."}]})
    task = {"goal": "Paint.", "models": {"executor": model}, "tools": {"allow": ["paint"]}}
    async with Worker(client, task_queue=queue, activities=[paint]):
        started = await client.start_workflow("AgentLoop", task, id=run, task_queue=queue)
        await started.result()
    (block,) = await results(bare, await bare.gateway.result(run))
    assert block.text == "RED for 2.50"
