"""What one command works with: the context, its output, and the runs that a person means."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.audit import Action
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.cli.output import Output
from perdure.interfaces.services import Services

ALL = "all"
LAST = "@last"


@dataclass(slots=True)
class Session:
    """One invocation; `following` is the run that Ctrl-C leaves alone."""

    context: AppContext
    output: Output
    following: str | None = None

    def load_plugins(self, names: Sequence[str]) -> None:
        """Let the services of this command load these files or modules too."""
        if names:
            self.context = self.context.with_plugins(names)

    @asynccontextmanager
    async def connected(
        self, *, start: bool = False, with_worker: bool = False
    ) -> AsyncGenerator[Services]:
        """The services; with `start`, embedded ones are started first if they are away.

        Beside a named server nothing is started, unless it is asked for `with_worker`.
        """
        with self.output.working("connecting") as progress:
            opening = self.context.connect(
                start=start, on_progress=progress, with_worker=with_worker
            )
            services = await opening.__aenter__()
        try:
            yield services
        finally:
            await opening.__aexit__(None, None, None)

    async def decided(
        self, services: Services, action: Action, about: str, *, run: str | None = None
    ) -> None:
        """Write to the audit trail what this person decided for later runs."""
        trail = AuditTrail(services.audit, now=self.context.now)
        await trail.decided(action, about, by=self.context.user, run=run)

    async def started(self, services: Services, *, with_worker: bool = False) -> Services:
        """The same services, after those that are embedded and away were started."""
        with self.output.working("connecting") as progress:
            return await services.started(progress, with_worker=with_worker)


async def each_run(services: Services, given: Sequence[str]) -> list[str]:
    """The full ids of what a person named, each once, in order.

    Raises:
        InvalidInput: nothing was named, or `all` among others.
    """
    if not given:
        raise InvalidInput(
            "No run was named.", cure="Give a run id, a unique beginning of one, or @last."
        )
    if ALL in given:
        raise InvalidInput("`all` was given beside other ids.", cure="Give `all` alone.")
    return list(dict.fromkeys([await services.gateway.resolve(item) for item in given]))
