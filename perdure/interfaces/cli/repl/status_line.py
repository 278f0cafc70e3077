"""What runs and what waits, looked at every few seconds for the status line and completion."""

import asyncio
from dataclasses import dataclass, field

from perdure.domain.foundation.errors import PerdureError
from perdure.gateway.types import RunFilter
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.cli.repl.completion import Names
from perdure.interfaces.cli.views.formatting import plural
from perdure.interfaces.services import Services

LOOK_EVERY_S = 3.0
REOPEN_EVERY_S = 10.0
RUNS_NAMED = 40
OPEN = frozenset({"running", "paused", "waiting"})


@dataclass(slots=True)
class Standing:
    """The newest look at the installation."""

    names: Names = field(default_factory=Names)
    line: str = "looking …"

    async def watch(self, context: AppContext) -> None:
        """Look again and again until it is cancelled; nothing is started for it."""
        while True:
            try:
                async with context.connect(start=False, on_progress=_silent) as services:
                    await self._keep_looking(services)
            except (PerdureError, OSError):
                self.line = 'no services run · /run "a goal" starts them'
            await asyncio.sleep(REOPEN_EVERY_S)

    async def _keep_looking(self, services: Services) -> None:
        while True:
            await self.look(services)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, services: Services) -> None:
        """One look."""
        library = await services.definitions.library(None)
        self.names.loops = tuple(sorted(library.definitions))
        page = await services.gateway.list(RunFilter(limit=RUNS_NAMED))
        self.names.runs = tuple(run.id for run in page.runs)
        found = await services.gateway.gates()
        self.names.gates = tuple(f"{item.run}:{item.gate.name}" for item in found.gates)
        still = [run for run in page.runs if run.lifecycle in OPEN]
        counts = [
            f"{count} {word}"
            for word in ("running", "paused", "waiting")
            if (count := sum(run.lifecycle == word for run in still))
        ]
        waits = len(found.gates)
        asks = f" · {plural(waits, 'question')} for you: /gates" if waits else ""
        self.line = (" · ".join(counts) or "nothing runs") + asks


def _silent(_: str) -> None:
    """A look in the background tells nobody about its progress."""
