"""What a token must be trusted with before a specification is started."""

from pathlib import Path
from typing import get_args

from pydantic import JsonValue

from perdure.domain.execution import execution_needs
from perdure.domain.problems import shown
from perdure.domain.roles.definition import Capability
from perdure.domain.roles.snapshots import resolve_loop
from perdure.interfaces.api.caller import Caller
from perdure.interfaces.api.facts import ApiSite
from perdure.interfaces.api.problems import invalid

Spec = dict[str, JsonValue]


async def require_trust(site: ApiSite, caller: Caller, spec: Spec) -> None:
    """Refuse what asks for more than the token may: programs, addresses, folders nobody serves.

    Raises:
        Refused: 403 without the scope `execute`; 422 for a folder that is none.
    """
    folder = spec.get("workspace")
    await require_served(site, caller, folder)
    if caller.has("execute"):
        return
    if places := (*execution_needs(spec), *await _of_definition(site, spec, folder)):
        caller.need("execute", f" The specification asks for it at {', '.join(places[:5])}.")


async def require_served(site: ApiSite, caller: Caller, folder: JsonValue) -> None:
    """Let tokens without `execute` name only folders that runs have worked in before.

    What a folder holds can be read by the model: not every folder of this host is on offer.
    """
    if folder is None:
        return
    if caller.has("execute"):
        if isinstance(folder, str) and not _is_folder(folder):
            raise invalid("workspace", f"found {shown(folder)}; allowed: an absolute folder")
        return
    if folder not in (await site.services.records.workspaces()).values():
        caller.need("execute", " No run from this host has worked in that workspace folder yet.")


async def _of_definition(site: ApiSite, spec: Spec, folder: JsonValue) -> tuple[str, ...]:
    """What the stages of a definition ask for; one that cannot be resolved is refused later."""
    roles = spec.get("roles")
    if spec.get("kind") != "roles" or not isinstance(roles, dict):
        return ()
    name, given = roles.get("definition"), roles.get("parameters")
    if not isinstance(name, str):
        return ()
    library = await site.services.definitions.library(folder if isinstance(folder, str) else None)
    resolved = resolve_loop(
        library,
        name,
        goal=str(spec.get("goal", "")),
        parameters=given if isinstance(given, dict) else {},
        provided=get_args(Capability),
    )
    if resolved.snapshot is None:
        return ()
    places = execution_needs(resolved.snapshot.model_dump(mode="json"))
    return tuple(f"the definition {name}, {place}" for place in places)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_absolute() and Path(text).is_dir()
    except (OSError, ValueError):
        return False
