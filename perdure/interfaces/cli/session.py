"""What one command works with: the context, its output, and the runs that the user names."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import ALL
from perdure.domain.run.audit import Action
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.cli.output import Output
from perdure.interfaces.services import Services

LAST = "@last"


@dataclass(slots=True)
class Session:
    """One call of a command; `following` is the run that goes on after Ctrl-C."""

    context: AppContext
    output: Output
    following: str | None = None

    def load_plugins(self, names: Sequence[str]) -> None:
        """Make the services of this command load these files or modules too."""
        if names:
            self.context = self.context.with_plugins(names)

    @asynccontextmanager
    async def connected(
        self, *, start: bool = False, with_worker: bool = False
    ) -> AsyncGenerator[Services]:
        """The services; with `start`, missing embedded services are started first.

        With a named server nothing is started, unless `with_worker` asks for it.
        """
        with self.output.working("connecting") as progress:
            opening = self.context.connect(
                start=start, on_progress=progress, with_worker=with_worker
            )
            # Entered by hand, as the spinner has to end before the command prints.
            services = await opening.__aenter__()
        try:
            yield services
        finally:
            await opening.__aexit__(None, None, None)

    async def note_decision(
        self, services: Services, action: Action, about: str, *, run: str | None = None
    ) -> None:
        """Write to the audit trail a decision of this user that affects later runs."""
        trail = AuditTrail(services.audit, now=self.context.now)
        await trail.note_decision(action, about, by=self.context.user, run=run)

    async def started(self, services: Services, *, with_worker: bool = False) -> Services:
        """The services, after starting embedded ones that are missing."""
        with self.output.working("connecting") as progress:
            return await services.started(progress, with_worker=with_worker)


async def each_run(services: Services, given: Sequence[str]) -> list[str]:
    """The full ids of the named runs, each once, in order.

    Raises:
        InvalidInput: nothing was named, or `all`, which is no run.
    """
    if not given:
        raise InvalidInput(
            "No run was named.", cure="Give a run id, a unique beginning of one, or @last."
        )
    if list(given) == [ALL]:
        raise InvalidInput("This command takes runs by name, not `all`.", cure="Name their ids.")
    if ALL in given:
        raise InvalidInput("`all` was given beside other ids.", cure="Give `all` alone.")
    # Each once: a run that is named by two of its beginnings gets one message.
    return list(dict.fromkeys([await services.gateway.resolve(item) for item in given]))
