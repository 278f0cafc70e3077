"""Turns the name of a loop definition into the snapshot that a run of roles works with."""

from perdure.domain.ports import DefinitionStore, ToolHost
from perdure.domain.roles.capabilities import capabilities
from perdure.domain.roles.snapshots import Resolved, resolve_loop
from perdure.domain.run import KINDS, RolesSpec


async def resolved_loop(spec: RolesSpec, store: DefinitionStore, tools: ToolHost) -> Resolved:
    """The snapshot of a run's definition, with the goal's placeholders replaced.

    A specification that has a snapshot already keeps it: forks and retries use the loop that the
    run began with.
    """
    settings = spec.roles
    if settings.snapshot is not None:
        return Resolved(snapshot=settings.snapshot, goal=spec.goal)
    names = [fact.name for fact in await tools.catalog()]
    return resolve_loop(
        await store.library(spec.workspace),
        settings.definition,
        goal=spec.goal,
        parameters=settings.parameters,
        provided=capabilities(names, KINDS),
    )
