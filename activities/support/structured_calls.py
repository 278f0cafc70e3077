"""Asks a model for a reply with a structure and reads it, for every activity that needs one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import JsonValue

from perdure.activities.call_model import CallModel
from perdure.domain.llm.structured_replies import BadReply, unfinished
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import ModelCallReport, ModelCallRequest

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, slots=True)
class Answered(Generic[ReadT]):
    """A call with what its reply was read as; `value` is None when there was no usable reply.

    `problems` say why a reply that came is not usable; `text` is the reply word for word.
    """

    call: ModelCallReport
    value: ReadT | None = None
    problems: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class StructuredCalls:
    """Structured calls over the one way to call a model."""

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
    ) -> Answered[ReadT]:
        """Make the call with structured output, and read what comes back.

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
            return Answered(report)
        text = "" if report.text is None else await self.blobs.get_text(report.text.hash)
        value = unfinished(report.stop_reason) or read(text)
        if isinstance(value, BadReply):
            return Answered(report, problems=value.problems, text=text)
        return Answered(report, value=value, text=text)
