"""How many tools an agent and a run may make."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.size_limits import Count
from perdure.domain.generated_tools.rejections import ToolRefused, refused


class ToolsFactorySettings(FrozenModel):
    """Whether workers may make tools while they work, and how many.

    Args:
        enabled: whether any tool is made.
        approve: whether a person approves each tool, by its hash, before anybody may call it.
        per_agent: tools that one worker may make.
        per_run: tools that the run may make.
        repairs: how often a tool that did not pass a check is repaired.
        namespaces: what the names of tools may begin with; empty allows all that are not reserved.
        worker_namespaces: the same for single workers, by their id.
    """

    enabled: bool = True
    approve: bool = False
    per_agent: Count = 10
    per_run: Count = 50
    repairs: Annotated[int, Field(ge=0, le=10)] = 2
    namespaces: tuple[str, ...] = ()
    worker_namespaces: dict[str, tuple[str, ...]] = {}


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
