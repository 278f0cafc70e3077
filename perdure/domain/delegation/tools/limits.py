"""How many tools an agent and a run may make."""

from collections.abc import Iterable

from perdure.domain.delegation.settings import ToolsFactorySettings
from perdure.domain.delegation.tools.refusals import ToolRefused, refused


def check_limits(
    settings: ToolsFactorySettings, *, worker: str, makers: Iterable[str], made: int = 0
) -> ToolRefused | None:
    """Why one more tool of a worker is one too many, or None.

    Args:
        settings: the limits of the run.
        worker: who makes it.
        makers: the worker behind every tool that the run has made so far.
        made: how many the run and all runs beside and below it have made.
    """
    known = list(makers)
    count = max(made, len(known))
    if count >= settings.per_run:
        return refused(
            "limits", 429, "limit", f"the run has made {count} of {settings.per_run} tools"
        )
    own = known.count(worker)
    if own >= settings.per_agent:
        return refused(
            "limits", 429, "limit", f"{worker} has made {own} of {settings.per_agent} tools"
        )
    return None
