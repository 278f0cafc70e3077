"""Tool calls as both dialects write them: a name, an id, and arguments as JSON text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perdure.adapters.llm.tool_arguments import read_arguments
from perdure.domain.llm.transcript import Message, ToolUseBlock


@dataclass(slots=True)
class OpenCall:
    """A call while its arguments arrive; `closed` once the provider says that it is complete."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    closed: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it has a name and all of an object of arguments."""
        written = "".join(self.arguments)
        return bool(self.name and written) and read_arguments(written).whole

    def finished(self, *, tolerant: bool) -> ToolUseBlock | None:
        """The call as a block.

        Args:
            tolerant: the answer was cut here, so an incomplete call is None: half an argument must
                never be acted on.

        Raises:
            ValueError: it has no name, or never came to its arguments.
        """
        written = "".join(self.arguments)
        if tolerant and (not written or not self.name):
            return None
        if not self.name:
            raise ValueError("a tool call without a name")
        if not written and not self.closed:
            raise ValueError(f"the call of {self.name!r} never came to its arguments")
        arguments = read_arguments(written)
        if tolerant and not arguments.whole:
            return None
        return ToolUseBlock(
            type="tool_use",
            id=self.id,
            name=self.name,
            arguments=arguments.values,
            unreadable=arguments.wrong,
        )


def with_own_ids(
    calls: Sequence[ToolUseBlock], *, before: Sequence[Message], seed: str
) -> Iterator[ToolUseBlock]:
    """The calls, each with an id that the conversation does not have yet.

    Some servers leave ids out, or count from zero in each answer.

    Args:
        calls: as they came.
        before: the conversation so far.
        seed: identifies this model call, so that a second reading makes the same ids.
    """
    taken = {use.id for message in before for use in message.tool_uses} | {""}
    for index, call in enumerate(calls):
        own = call.id if call.id not in taken else f"call_{seed}_{index}"
        taken.add(own)
        yield call.model_copy(update={"id": own})
