"""Reads the arguments of a tool call as every provider writes them: as JSON text."""

from dataclasses import dataclass, field

from pydantic import JsonValue

from perdure.domain.foundation.json_extraction import RefusedJson, read_json

_FOUND = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        values: none if something is wrong.
        wrong: what is, in words for the model.
        whole: the text is an object, even if nothing of it may be taken. What is not whole may have
            been cut off.
    """

    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    wrong: str = ""
    whole: bool = True


def read_arguments(written: str) -> Arguments:
    """The arguments of a call whose text has come to its end; none and `null` are an empty object.

    Whatever is wrong with them is told to the model. An error here would make the attempt fail, and
    the whole reply would be paid for again.
    """
    if not written.strip():
        return Arguments()
    try:
        value = read_json(written)
    # Before its base `ValueError`: this text is whole, so that a cut answer keeps the call.
    except RefusedJson as error:
        return Arguments(wrong=str(error))
    except ValueError as error:
        return Arguments(wrong=f"this is no JSON: {error}", whole=False)
    match value:
        case dict():
            return Arguments(value)
        case None:
            return Arguments(whole=False)
        case _:
            wrong = f"this is {_FOUND[type(value)]} where an object belongs"
            return Arguments(wrong=wrong, whole=False)
