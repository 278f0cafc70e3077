"""`up` in the foreground: the supervisor in this process, its parts shown by the caller."""

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed
from perdure.local_services.supervisor import OnChange, supervise


async def up(settings: Settings, on_change: OnChange) -> None:
    """Run the services until Ctrl-C, SIGTERM or `perdure down`; never ends for being idle.

    `on_change` gets every new state; `table.render` draws it.

    Raises:
        NotAllowed: the services of this home folder run already.
        RuntimeUnavailable: a service does not start, or the named server does not answer.
    """
    if not await supervise(settings, on_change=on_change):
        raise NotAllowed(
            f"The services of {settings.home} run already.",
            cure="Look at `perdure logs --follow`, or stop them with `perdure down`.",
        )
