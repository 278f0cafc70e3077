"""The ground of a failure test: installation, provider and ledgers, and what tests do on it."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from installation import Installation, WorkerProcess, installation
from invariants import Injected, check
from provider import MODEL, PRICE_SHEET, Play, Provider
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import AnyMessage
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Timing

SUPPORT = Path(__file__).parent
HEARTBEAT_S = 2.0
FAST = Timing(heartbeat=HEARTBEAT_S, stop_grace=2.0)


@dataclass
class Ground:
    """Everything a failure test stands on."""

    site: Installation
    provider: Provider
    folder: Path

    @property
    def effects(self) -> Path:
        """The tool ledger."""
        return self.folder / "effects.jsonl"

    def go(self) -> None:
        """Let stalled tools go on."""
        Path(f"{self.effects}.go").touch()

    def deaths(self) -> int:
        """How often a kill point struck."""
        return len(list((self.folder / "marks").iterdir()))

    async def start(self, **spec: object) -> str:
        """Start an agent run on the ledger model."""
        given: dict[str, object] = {
            "kind": "agent",
            "goal": "look",
            "models": {"executor": MODEL},
            "learn": False,
            **spec,
        }
        return await self.site.start(given)

    async def verb(self, run: str, message: AnyMessage) -> None:
        """Steer by update."""
        await self.site.gateway.verb(run, message)

    async def check(self, run: str, **injected: int) -> RunResult:
        """All invariants on a run, once it has ended."""
        await self.site.gateway.result(run)
        return await check(
            self.site,
            run,
            ledger=self.provider.lines(),
            effects=self.effects,
            injected=Injected(**injected),  # type: ignore[arg-type]
        )

    async def billed(self, calls: int) -> None:
        """Wait until so many requests reached the provider."""
        await eventually(lambda: len(self.provider.lines()) >= calls)

    async def effected(self, lines: int) -> None:
        """Wait until so many tool calls began."""
        await eventually(
            lambda: self.effects.exists() and len(self.effects.read_text().splitlines()) >= lines
        )

    @asynccontextmanager
    async def process(self, point: str = "", *, times: int = 1) -> AsyncGenerator[WorkerProcess]:
        """A worker process, which may die at a kill point."""
        async with self.site.worker_process(**self.environment(point, times=times)) as process:
            yield process

    def environment(self, point: str = "", *, times: int = 1) -> Mapping[str, str]:
        """What a worker process of this ground needs."""
        plugins = "ledger_tools,kill_points" if point else "ledger_tools"
        return {
            "PYTHONPATH": os.pathsep.join((str(SUPPORT), os.environ.get("PYTHONPATH", ""))),
            "PERDURE_PLUGINS": plugins,
            "TOOL_LEDGER": str(self.effects),
            "KILL_POINT": point,
            "KILL_TIMES": str(times),
            "KILL_MARKS": str(self.folder / "marks"),
        }


@asynccontextmanager
async def ground(
    folder: Path,
    address: str,
    *,
    timing: Timing = FAST,
    plays: tuple[Play, ...] = (Play(),),
    api_key: str = "loopback",
    **settings: object,
) -> AsyncGenerator[Ground]:
    """An installation without workers against a provider with a ledger."""
    home = folder / "home"
    home.mkdir(parents=True)
    (folder / "marks").mkdir()
    (home / "prices.yaml").write_text(PRICE_SHEET)
    provider = Provider(folder / "provider.jsonl", plays)
    async with (
        provider.serving(),
        installation(
            home,
            address,
            timing=timing,
            heartbeat_s=timing.heartbeat,
            anthropic_base_url=provider.url,
            anthropic_api_key=api_key,
            plugins=("ledger_tools",),
            **settings,
        ) as site,
    ):
        yield Ground(site, provider, folder)


@pytest.fixture
async def unserved(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ground]:
    """An installation without workers, the provider and the ledgers."""
    address = server.client.service_client.config.target_host
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    async with ground(tmp_path, address) as made:
        yield made
