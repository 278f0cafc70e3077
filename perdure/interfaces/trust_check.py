"""What a run would be trusted with, its definition included; every door that takes tokens asks."""

from collections.abc import Mapping
from typing import get_args

from pydantic import JsonValue

from perdure.domain.roles.definition import Capability
from perdure.domain.roles.definition_library import DefinitionStore
from perdure.domain.roles.resolved_loop import resolve_loop
from perdure.domain.trust_requirements import execution_needs, snapshot_needs


async def trusted_places(
    spec: Mapping[str, JsonValue], definitions: DefinitionStore
) -> tuple[str, ...]:
    """Where a specification asks for what needs the scope `execute`.

    A definition that cannot be resolved asks for nothing here: it is refused when it is started.
    """
    return (*execution_needs(spec), *await _of_definition(spec, definitions))


async def _of_definition(
    spec: Mapping[str, JsonValue], definitions: DefinitionStore
) -> tuple[str, ...]:
    roles, folder = spec.get("roles"), spec.get("workspace")
    if spec.get("kind") != "roles" or not isinstance(roles, dict):
        return ()
    name, given = roles.get("definition"), roles.get("parameters")
    if not isinstance(name, str):
        return ()
    library = await definitions.library(folder if isinstance(folder, str) else None)
    resolved = resolve_loop(
        library,
        name,
        goal=str(spec.get("goal", "")),
        parameters=given if isinstance(given, dict) else {},
        provided=get_args(Capability),
    )
    if resolved.snapshot is None:
        return ()
    return tuple(f"the definition {name}, {place}" for place in snapshot_needs(resolved.snapshot))
