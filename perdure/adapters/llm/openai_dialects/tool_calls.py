"""Tool calls as both dialects write them: a name, an id, and arguments as a text of JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, TypeAdapter

from perdure.domain.foundation.json_extraction import RefusedJson, read_json
from perdure.domain.llm.transcript import Message, ToolUseBlock

_OBJECT = TypeAdapter(dict[str, JsonValue])


@dataclass(slots=True)
class OpenCall:
    """A call while its arguments arrive; `closed` once the provider says that it is whole."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    closed: bool = False

    def finished(self, *, tolerant: bool) -> ToolUseBlock | None:
        """The call as a block.

        Args:
            tolerant: the answer was cut here: half a call is left out, for half an argument must
                never be acted on.

        Raises:
            ValueError: it has no name, or its arguments are no JSON object.
        """
        written = "".join(self.arguments)
        if tolerant and (not written or not self.name):
            return None
        if not self.name:
            raise ValueError("a tool call without a name")
        if not written and not self.closed:
            raise ValueError(f"the call of {self.name!r} never came to its arguments")
        unreadable = ""
        try:
            arguments = _OBJECT.validate_python(read_json(written) if written else {})
        except RefusedJson as error:
            # The model wrote it to its end: it is told what is wrong, instead of being paid anew.
            arguments, unreadable = _OBJECT.validate_python({}), str(error)
        except ValueError:
            if tolerant:
                return None
            raise
        return ToolUseBlock(
            type="tool_use",
            id=self.id,
            name=self.name,
            arguments=arguments,
            unreadable=unreadable,
        )


def with_own_ids(
    calls: Sequence[ToolUseBlock], *, before: Sequence[Message], seed: str
) -> Iterator[ToolUseBlock]:
    """The calls with an id each that the conversation does not have yet.

    Some servers leave the ids out, or count from zero in each answer.

    Args:
        calls: as they came.
        before: the conversation so far.
        seed: what names this call to the model; the same for each reading of its answer.
    """
    taken = {use.id for message in before for use in message.tool_uses} | {""}
    for index, call in enumerate(calls):
        own = call.id if call.id not in taken else f"call_{seed}_{index}"
        taken.add(own)
        yield call.model_copy(update={"id": own})
