"""Turns the name of a loop definition into the snapshot that a run of roles works with."""

from perdure.domain.ports import DefinitionStore, ToolHost
from perdure.domain.roles.capabilities import capabilities
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.reading import text_of
from perdure.domain.roles.settings import RolesSettings
from perdure.domain.roles.snapshots import Resolved, resolve_loop
from perdure.domain.run import KINDS, RolesSpec


async def resolved_loop(spec: RolesSpec, store: DefinitionStore, tools: ToolHost) -> Resolved:
    """The snapshot of a run's definition, with the goal's placeholders replaced.

    A specification that has a snapshot already keeps it: forks and retries use the loop that the
    run began with, unless a fork asks for another loop or other parameters.
    """
    settings = spec.roles
    if settings.snapshot is not None and _is_of(settings.snapshot, settings):
        return Resolved(snapshot=settings.snapshot, goal=spec.goal)
    names = [fact.name for fact in await tools.catalog()]
    return resolve_loop(
        await store.library(spec.workspace),
        settings.definition,
        goal=spec.goal,
        parameters=settings.parameters,
        provided=capabilities(names, KINDS),
    )


def _is_of(snapshot: LoopSnapshot, settings: RolesSettings) -> bool:
    """Whether a snapshot is of the loop that is asked for, with these parameters."""
    given = {name: value for name, value in settings.parameters.items() if value is not None}
    return snapshot.definition.name == settings.definition and all(
        snapshot.parameters.get(name) == text_of(value) for name, value in given.items()
    )
