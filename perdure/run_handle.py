"""One run of an installation, from Python."""

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Literal, TypeVar, cast

from perdure.domain.ports import LiveTexts
from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.live_text import LivePart
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Message,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.live_text import parts
from perdure.interfaces.opening import not_pickled
from perdure.interfaces.python_arguments import count, made, wrong

M = TypeVar("M", bound=Message)


class RunHandle:
    """One run: look at it, follow it, steer it."""

    def __init__(self, id: str, *, gateway: RunGateway, live: LiveTexts, by: str) -> None:
        self.id = id
        self._gateway = gateway
        self._live = live
        self._by = by

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    __reduce__ = not_pickled

    async def status(self) -> RunStatus:
        """One look."""
        return await self._gateway.status(self.id)

    def events(self, *, since: int = 0) -> AsyncIterator[Event]:
        """Events after `since` as they come; the last one is `ended`."""
        return self._followed(count("since", since, least=0))

    async def _followed(self, since: int) -> AsyncIterator[Event]:
        # The gateway is reached only in the event loop that follows.
        async for event in self._gateway.events(self.id, since=since):
            yield event

    def stream(self) -> AsyncIterator[LivePart]:
        """What models say while they say it, in this run and in those below it; ends with the run.

        It may have gaps (`skipped`); the whole text is in the history as always.
        """
        return parts(self._live, self.id, self.events())

    async def result(self, *, wait: bool = True) -> RunResult:
        """The end of the run; raises `NotAllowed` when it goes on and `wait` is off."""
        return await self._gateway.result(self.id, wait=wait)

    async def records(self) -> Sequence[IterationRecord]:
        """The iterations so far, in order."""
        return await self._gateway.records(self.id)

    async def costs(self) -> CostReport:
        """Spend by phase, model and day."""
        return await self._gateway.costs(self.id)

    async def pause(self) -> Receipt:
        """Start no new step; a step in flight finishes."""
        return await self._send(Pause)

    async def resume(self) -> Receipt:
        """Go on where it stood."""
        return await self._send(Resume)

    async def stop(self, *, mode: Literal["graceful", "now"] = "graceful") -> Receipt:
        """End with the best result: after the step in flight, or at once."""
        return await self._send(Stop, mode=mode)

    async def escalate(self, note: str = "") -> Receipt:
        """Open a question to a person at the next checkpoint."""
        return await self._send(Escalate, note=note)

    async def answer(
        self, gate: Gate | str, choice: str | None = None, *, text: str | None = None
    ) -> Receipt:
        """Answer a question; an approval takes the gate, or its whole name such as `g1-7f3a`."""
        match cast("object", gate):
            case Gate(id=name, args_hash=args_hash):
                pass
            case str(name):
                args_hash = None
            case other:
                raise wrong("gate", other, "a gate of the run's status, or its name")
        return await self._send(Answer, gate=name, choice=choice, text=text, args_hash=args_hash)

    async def amend(
        self,
        *,
        budget: Mapping[str, object] | None = None,
        rubric: Iterable[object] | None = None,
        guidance: str | None = None,
    ) -> Receipt:
        """Change limits or the rubric, or give guidance for the next prompt."""
        limits = {} if budget is None else budget
        return await self._send(Amend, budget=limits, rubric=rubric, guidance=guidance)

    async def add_input(self, text: str) -> Receipt:
        """Say something to the model before its next call; long texts are stored."""
        return await self._send(AddInput, text=text)

    async def retry(self, note: str = "") -> Receipt:
        """Go on after a failure, under the same id and on the same account.

        Raises:
            NotAllowed: the run has not failed.
        """
        return await self._send(Retry, note=note)

    async def _send(self, kind: type[M], **fields: object) -> Receipt:
        # One id for each call: a message that is sent again after a lost answer counts once.
        signed = {"by": self._by, "request_id": uuid.uuid4().hex}
        message = made(kind, fields | signed, heading=f"{kind.__name__} to the run")
        return await self._gateway.verb(self.id, cast("AnyMessage", message))
