"""The `@tool` decorator: facts from the function itself."""

from typing import Annotated, Literal, cast

import pytest
from pydantic import BaseModel, Field, JsonValue
from pydantic.fields import FieldInfo

from perdure.domain.foundation.errors import InvalidInput
from perdure.extending.tool_decorator import Tool, ToolContext, read_docstring, tool

Shapes = dict[str, dict[str, JsonValue]]


def properties_of(shape: dict[str, JsonValue]) -> Shapes:
    return cast("Shapes", shape["properties"])


class Point(BaseModel):
    x: int
    y: int = 0


@tool(access="network", name="maps.near", timeout_s=5, needs_approval=True, aliases=("near",))
async def near(
    point: Point,
    context: ToolContext,
    unit: Literal["m", "km"] = "m",
    limit: Annotated[int, Field(ge=1)] = 3,
) -> list[str]:
    """Find places near a point.

    More words.

    Args:
        point: where to look,
            in whole degrees.
        unit (str): of distances.

    Returns:
        Names of places.
    """
    return [context.run]


def test_facts_and_schema():
    fact = near.fact
    assert (fact.name, fact.access, fact.timeout_s) == ("maps.near", "network", 5)
    assert (fact.needs_approval, fact.idempotent, fact.aliases) == (True, False, ("near",))
    assert fact.description == "Find places near a point.\n\nMore words."
    point = fact.parameters["$defs"]
    assert fact.parameters == {
        "$defs": point,
        "type": "object",
        "additionalProperties": False,
        "required": ["point"],
        "properties": {
            "point": {"$ref": "#/$defs/Point", "description": "where to look, in whole degrees."},
            "unit": {
                "type": "string",
                "enum": ["m", "km"],
                "default": "m",
                "description": "of distances.",
            },
            "limit": {"type": "integer", "default": 3, "minimum": 1},
        },
    }
    assert near.context_name == "context"


def test_descriptions_of_annotations_reach_the_model():
    @tool
    def convert(
        amount: Annotated[float, Field(description="in euros")],
        to: Annotated[str, Field(description="a currency")] = "USD",
    ) -> str:
        """Convert an amount.

        Args:
            to: the currency's code.
        """
        return f"{amount} {to}"

    properties = properties_of(convert.fact.parameters)
    assert [one["description"] for one in properties.values()] == [
        "in euros",
        "the currency's code.",
    ]


def test_a_field_of_pydantic_may_stand_as_the_default():
    shared = Field(5, ge=1)
    needed = Field(description="a town")
    listed = Field(default_factory=list, description="to look for")

    @tool
    def pick(
        place: str = needed,
        most: int = shared,
        least: Annotated[int, Field(description="hidden")] = shared,
        words: list[str] = listed,
    ) -> str:
        """Pick places.

        Args:
            place: hidden.
            most: how many.
            least: how few.
        """
        return f"{place} {most}"

    parameters = pick.fact.parameters
    number = {"type": "integer", "minimum": 1, "default": 5}
    assert (parameters["required"], parameters["properties"]) == (
        ["place"],
        {
            "place": {"type": "string", "description": "a town"},
            "most": {**number, "description": "how many."},
            "least": {**number, "description": "how few."},
            "words": {"type": "array", "items": {"type": "string"}, "description": "to look for"},
        },
    )
    read = pick.arguments.model_validate({"place": "Delft"})
    assert read.model_dump() == {"place": "Delft", "most": 5, "least": 5, "words": []}
    assert cast("FieldInfo", shared).description is None


WHOLE: dict[str, JsonValue] = {"title": "t", "a": 1}


class Titled(BaseModel):
    title: str = "untitled"
    default: Point | None = None


def test_only_generated_titles_are_left_out_of_the_schema():
    @tool
    def save(
        page: Titled,
        default: Annotated[dict[str, JsonValue], Field(examples=[WHOLE])] = WHOLE,
    ) -> str:
        """Save a page."""
        return page.title

    parameters = save.fact.parameters
    default = properties_of(parameters)["default"]
    assert (default["default"], default["examples"]) == (WHOLE, [WHOLE])
    assert "title" not in default
    titled = cast("Shapes", parameters["$defs"])["Titled"]
    assert titled["properties"] == {
        "title": {"type": "string", "default": "untitled"},
        "default": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
    }


def test_the_function_stays_callable():
    @tool()
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    assert double(4) == 8
    assert double.fact.name == "double"


def no_annotation(x):
    """Nothing."""


def positional(x: int, /):
    """Nothing."""


def many(*xs: int):
    """Nothing."""


@pytest.mark.parametrize("function", [no_annotation, positional, many])
def test_functions_without_a_schema_are_refused(function):
    with pytest.raises(InvalidInput):
        tool()(function)


@pytest.mark.parametrize("name", ["", "Fs.read", "fs..read", "fs.", "fs read", "fѕ.read"])
def test_malformed_names_are_refused(name):
    with pytest.raises(InvalidInput, match="malformed"):

        @tool(name=name or " ")
        def nothing() -> None:
            """Nothing."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("", {})),
        ("One line.", ("One line.", {})),
        ("A.\n\nArgs:\n    a: x: y\n", ("A.", {"a": "x: y"})),
        ("A.\n\nArgs:\n    a: x\nReturns:\n    b: no\n", ("A.", {"a": "x"})),
        ("A.\n\nReturns:\n    text", ("A.", {})),
        ("A.\n\nArgs:\n    a (int): x\n        y\n\n    b: z\n", ("A.", {"a": "x y", "b": "z"})),
        ("A.\n\nExample:\n    b\n\nArgs:\n    a: x", ("A.\n\nExample:\n    b", {"a": "x"})),
    ],
    ids=["empty", "summary", "colon", "other section", "no arguments", "long", "example"],
)
def test_docstrings(text, expected):
    assert read_docstring(text) == expected


def test_a_docstring_that_cannot_be_read_is_refused():
    def count(text: str):
        """Count.

        Args:
            text
        """

    with pytest.raises(InvalidInput, match=r"docstring of tool count cannot be read: .*'text'"):
        tool()(count)


def test_tools_that_close_over_something_are_read_once():
    def counting(start: int):
        @tool(name="numbers.next")
        def after(step: Annotated[int, Field(ge=1)] = 1) -> int:
            """The next number."""
            return start + step

        return after

    one, other = counting(1), counting(10)
    assert (one(), other(2)) == (2, 12)
    assert one.arguments is other.arguments


def test_classes_of_one_name_stay_apart():
    def taking(most: int):
        class Given(BaseModel):
            value: int = Field(le=most)

        @tool(name="values.take")
        def take(given: Given) -> str:
            """Take it."""
            return str(given.value)

        return take

    told = [str(taking(most).fact.parameters) for most in (3, 7)]
    assert ["7" in one for one in told] == [False, True]


def test_a_cell_that_is_run_again_is_read_again():
    """Its code and its annotations are the same texts, and its types are other ones."""
    cell = '''
from __future__ import annotations

class Given(BaseModel):
    {}: int

@tool(name="values.of_cell")
def take(given: Given) -> str:
    """Take it."""
    return ""
'''
    told: list[str] = []
    for field in ("before", "after"):
        variables: dict[str, object] = {"BaseModel": BaseModel, "tool": tool, "__name__": "cell"}
        exec(compile(cell.format(field), "cell", "exec"), variables)
        told.append(str(cast("Tool[..., object]", variables["take"]).fact.parameters))
    assert ["after" in one for one in told] == [False, True]
