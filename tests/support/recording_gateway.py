"""A gateway, blobs and texts in flight that remember what the Python client asked of them."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from live_calls import live_call

from perdure import AgentSpec
from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.events import Event
from perdure.domain.run.live_text import LiveCall
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.specs import Spec
from perdure.gateway.types import RunFilter, RunPage, RunRow, Wanted

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Recorder:
    """A gateway that remembers what it was asked."""

    started: list[tuple[Spec, str | None, str | None]] = field(default_factory=list)
    sent: list[tuple[str, AnyMessage]] = field(default_factory=list)
    forked: list[tuple[str, int]] = field(default_factory=list)
    wanted: list[RunFilter] = field(default_factory=list)

    async def start(
        self,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        self.started.append((spec, run_id, idempotency_key))
        return run_id or "agent-1"

    async def list(self, wanted: RunFilter) -> RunPage:
        self.wanted.append(wanted)
        row = RunRow(id="agent-1", kind="agent", goal="x", lifecycle="completed")
        return RunPage(runs=(row,))

    async def default_model(self) -> str | None:
        return None

    async def result(self, run: str, *, wait: bool = True) -> RunResult:
        return RunResult(
            id=run, kind="agent", outcome="accepted", reason="text_answer", explanation="Done."
        )

    async def events(self, run: str, *, since: int = 0) -> AsyncIterator[Event]:
        yield Event(seq=since + 1, at=NOW, run=run, iteration=0, type="ended")

    async def verb(self, run: str, message: AnyMessage) -> Receipt:
        self.sent.append((run, message))
        return Receipt(verb=type(message).__name__.lower(), lifecycle="running")

    async def fork_spec(self, run: str, iteration: int) -> Spec:
        self.forked.append((run, iteration))
        return AgentSpec(kind="agent", goal="say it")

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        return await self.start(spec, run_id=run_id, idempotency_key=idempotency_key)

    async def resolve(self, name: str) -> str:
        if name != "@last":
            raise NotFound(f"There is no run {name}.")
        return "agent-1"


@dataclass
class Blobs:
    kept: dict[str, bytes] = field(default_factory=dict)

    async def put(self, data: bytes) -> str:
        address = f"hmac:{len(self.kept)}"
        self.kept[address] = data
        return address


class Texts:
    """Somebody speaks in every run."""

    async def show(self, calls: Sequence[LiveCall]) -> None: ...

    async def drop(self, calls: Sequence[LiveCall]) -> None: ...

    async def below(self, run: str) -> Sequence[LiveCall]:
        return [live_call(run=run, text="so far")]

    async def watch(self, run: str) -> None: ...

    async def watched(self) -> dict[str, int]:
        return {}

    async def prune(self) -> None: ...
