"""Reading an answer as a value of the schema that its task names."""

from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.turns.output_schema import Given, given_in, in_words

# How a value misses a schema; nothing where it conforms.
Misfits = Callable[[Mapping[str, JsonValue], JsonValue], Awaitable[tuple[str, ...]]]


async def shaped(
    text: str, schema: Mapping[str, JsonValue], misfits: Misfits
) -> tuple[str, tuple[str, ...]]:
    """The answer and what is wrong with it: one that fits is its value alone, as JSON."""
    found = given_in(text, schema)
    if not isinstance(found, Given):
        return text, in_words(found.problems)
    try:
        problems = await misfits(schema, found.value)
    except PerdureError as error:
        problems = (str(error),)
    return (text, in_words(problems)) if problems else (found.text, ())
