"""Checking values against foreign JSON schemas: in time, and without looking anything up."""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.adapters.bounded_process.process import TooMuch, work
from perdure.check_decorator import CheckFailed


async def misfits_of(schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
    """How a value misses a schema, each with its path; empty when it conforms.

    Raises:
        CheckFailed: the schema cannot be used, or takes too long on this value.
    """
    try:
        answer = await work("schema", dict(schema), value)
    except TooMuch as error:
        raise CheckFailed(f"the JSON schema cannot be checked: {error}.") from error
    if isinstance(answer, dict):
        raise CheckFailed(str(answer["unusable"]))
    return tuple(map(str, answer)) if isinstance(answer, list) else ()
