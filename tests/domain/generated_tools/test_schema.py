"""The schema stage: the declared schema is plain and agrees with the handler, types included."""

import pytest
from drafts import draft

from perdure.domain.generated_tools.code import Checked, check_code
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.generated_tools.schema import schema_refusal


def checked(arguments: str, schema: object) -> ToolRefused | None:
    code = f"import typing\ndef handler(*, {arguments}) -> dict:\n    return {{'a': [a]}}\n"
    made = draft(code, schema=schema)
    found = check_code(made)
    assert isinstance(found, Checked), found
    return schema_refusal(made, found.handler)


def one(schema: dict[str, object], *, required: bool = True) -> dict[str, object]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else []}


FITTING = {
    "text": ("a: str", one({"type": "string"})),
    "whole number": ("a: int", one({"type": "integer", "minimum": 0})),
    "number": ("a: float", one({"type": "number"})),
    "number that takes whole ones": ("a: float", one({"type": "integer"})),
    "yes or no": ("a: bool", one({"type": "boolean"})),
    "list": ("a: list", one({"type": "array"})),
    "typed list": ("a: list[int]", one({"type": "array", "items": {"type": "integer"}})),
    "mapping": ("a: dict[str, int]", one({"type": "object"})),
    "either": ("a: int | str", one({"type": ["integer", "string"]})),
    "optional": (
        "a: typing.Optional[str] = None",
        one({"type": ["string", "null"]}, required=False),
    ),
    "union": ("a: typing.Union[int, None] = None", one({"type": "integer"}, required=False)),
    "choices": ("a: str", one({"enum": ["x", "y"]})),
    "literal": ("a: typing.Literal['x', 'y']", one({"type": "string", "enum": ["x", "y"]})),
    "anything": ("a: object", one({})),
    "annotation as text": ("a: 'list[str]'", one({"type": "array"})),
    "default": ("a: int = 3", one({"type": "integer", "default": 3}, required=False)),
}


@pytest.mark.parametrize(("arguments", "schema"), FITTING.values(), ids=FITTING)
def test_a_schema_that_fits_passes(arguments: str, schema: object) -> None:
    assert checked(arguments, schema) is None


WRONG = {
    "another type": ("a: int", one({"type": "string"}), "annotated int"),
    "a wider type": ("a: int", one({"type": "number"}), "annotated int"),
    "null that is not taken": ("a: str", one({"type": ["string", "null"]}), "annotated str"),
    "anything for a text": ("a: str", one({}), "annotated str"),
    "no annotation": ("a", one({"type": "string"}), "no type annotation"),
    "an odd annotation": ("a: 3", one({"type": "string"}), "annotated 3"),
    "a missing property": ("a: str, b: str", one({"type": "string"}), "takes b"),
    "one too many": (
        "a: str",
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        "declares b",
    ),
    "not required": ("a: str", one({"type": "string"}, required=False), "list it as required"),
    "required with default": ("a: str = ''", one({"type": "string"}), "must not list it"),
    "another default": (
        "a: int = 3",
        one({"type": "integer", "default": 4}, required=False),
        "the schema says otherwise",
    ),
    "default of another type": (
        "a: int = 3",
        one({"type": "integer", "default": "3"}, required=False),
        "'default' is not of the declared type",
    ),
    "no object": ("a: str", {"type": "array"}, '"type": "object"'),
    "nothing": ("a: str", {}, '"type": "object"'),
    "a pattern": ("a: str", one({"type": "string", "pattern": "(a+)+$"}), "'pattern' is not taken"),
    "a reference": ("a: str", one({"$ref": "#/x"}), "'$ref' is not taken"),
    "a condition": ("a: str", one({"type": "string", "if": {}}), "'if' is not taken"),
    "an unknown type": ("a: str", one({"type": "text"}), "wrong form"),
    "an endless number": ("a: str", one({"type": "string", "minLength": -1}), "wrong form"),
    "enum of another type": ("a: str", one({"type": "string", "enum": [1]}), "declared type"),
    "deep": (
        "a: list",
        one({"type": "array", "items": {"items": {"items": {"items": {"items": {"items": {
            "items": {"items": {}}}}}}}}}),
        "levels deep",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "schema", "said"), WRONG.values(), ids=WRONG)
def test_a_schema_that_does_not_fit_is_refused(arguments: str, schema: object, said: str) -> None:
    found = checked(arguments, schema)
    assert found is not None
    assert (found.stage, found.code, found.category) == ("schema", 400, "schema")
    assert found.repairable
    assert said in found.message
