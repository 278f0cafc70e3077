"""Structured model calls: ask for a reply that matches a schema, and read it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import JsonValue

from perdure.activities.call_model import CallModel
from perdure.domain.llm.structured_replies import BadReply, unfinished_problem
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import ModelCallReport, ModelCallRequest

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[ReadT]):
    """A call and its parsed reply; `value` is None if there was no usable reply.

    `problems` say why a reply is not usable; `text` is the reply word for word.
    """

    call: ModelCallReport
    value: ReadT | None = None
    problems: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class StructuredCalls:
    """Makes structured calls through `CallModel`."""

    calls: CallModel
    blobs: BlobStore

    async def ask(
        self,
        call: ModelCallRequest,
        *,
        schema: dict[str, JsonValue],
        read: Callable[[str], ReadT | BadReply],
        system: str | None = None,
        temperature: float | None = None,
    ) -> ParsedReply[ReadT]:
        """Make the call with structured output, and parse the reply.

        Args:
            call: the logical call, with its allowance.
            schema: JSON Schema of the wanted reply.
            read: reads the reply's text, or says what is wrong with it.
            system: replaces the system prompt of the frame.
            temperature: sent to models that take one.
        """
        report = await self.calls.turn(
            call, json_schema=schema, system=system, temperature=temperature
        )
        if report.status != "replied":
            return ParsedReply(report)
        text = "" if report.text is None else await self.blobs.get_text(report.text.hash)
        # A reply that was cut off is not parsed: half a structure may read as a smaller whole one.
        value = unfinished_problem(report.stop_reason) or read(text)
        if isinstance(value, BadReply):
            return ParsedReply(report, problems=value.problems, text=text)
        return ParsedReply(report, value=value, text=text)
