"""Checks what a token may do before its specification starts."""

from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.problems import format_value
from perdure.domain.trust_requirements import execution_needs, written_needs
from perdure.interfaces.rest.callers import Caller
from perdure.interfaces.rest.error_responses import Refused, invalid
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.tokens import is_below, require_start, trusted_places
from perdure.submission.loading import load_data
from perdure.submission.types import Submission, as_workers_see

Spec = dict[str, JsonValue]


async def require_trust(site: ApiSite, caller: Caller, spec: Spec) -> None:
    """Refuse a specification that asks for more than the token may: programs, addresses or folders.

    Raises:
        Refused: 403 without the scope `execute`; 422 if the folder does not exist.
    """
    await _require_place(site, caller, spec)
    await _require_modest(site, caller, spec)


async def trusted_submission(site: ApiSite, caller: Caller, fields: Spec) -> Submission:
    """Read what a request would start, and refuse it as `require_trust` does.

    The defaults of the installation count for what it asks for: a workspace in them brings its own
    definitions. Only the folder of the request has to be known; that of the defaults is the
    operator's choice.

    Raises:
        InvalidInput: it cannot run.
        Refused: the token may not start it.
    """
    # The folder first, since reading says whether there is such a folder on this host.
    await _require_place(site, caller, fields)
    submission = await as_workers_see(
        lambda around: load_data(fields, surroundings=around),
        site.surroundings,
        site.services.gateway.default_model,
    )
    spec: Spec = submission.spec.model_dump(mode="json", by_alias=True)
    # Once more, since the defaults may have added a folder, a session or a project.
    _require_bounds(caller, spec)
    await _require_modest(site, caller, spec)
    return submission


async def _require_place(site: ApiSite, caller: Caller, spec: Spec) -> None:
    _require_bounds(caller, spec)
    await require_served(site, caller, spec.get("workspace"))


def _require_bounds(caller: Caller, spec: Spec) -> None:
    try:
        require_start(caller.token, spec)
    except NotAllowed as error:
        raise Refused(403, "bound_token", error.message, cure=error.cure) from None


async def _require_modest(site: ApiSite, caller: Caller, spec: Spec) -> None:
    if caller.has("execute"):
        return
    if places := await trusted_places(spec, site.services.definitions()):
        caller.need("execute", f" The specification asks for it at {', '.join(places[:5])}.")


async def require_served(site: ApiSite, caller: Caller, folder: JsonValue) -> None:
    """Let tokens without `execute` name only folders that runs have worked in before.

    The model can read what is in a folder, so such a token must not reach every folder of this
    host.
    """
    if folder is None:
        return
    if caller.has("execute"):
        if isinstance(folder, str) and not _is_folder(folder):
            raise invalid("workspace", f"found {format_value(folder)}; allowed: an absolute folder")
        return
    if caller.token.bound:
        if not is_below(folder, caller.token.folders):
            told = f"The token {caller.token.name!r} is not bound to that workspace folder."
            raise Refused(403, "bound_token", told, cure="Name one of its folders.")
        return  # the operator named the folder when making the token
    if folder not in (await site.services.records.workspaces()).values():
        caller.need("execute", " No run from this host has worked in that workspace folder yet.")


def require_harmless(caller: Caller, given: Spec, told: str) -> None:
    """Require `execute` to store something that would run programs when somebody else uses it.

    Raises:
        Refused: 403; `told` names what was written.
    """
    if caller.has("execute"):
        return
    if places := execution_needs(given):
        caller.need("execute", f" {told} asks for it at {', '.join(places[:5])}.")


async def require_harmless_loop(
    site: ApiSite, caller: Caller, fields: Spec, workspace: str | None
) -> None:
    """Require the same for a loop definition with its roles, parameters and inner loops."""
    if caller.has("execute"):
        return
    library = await site.services.definitions().library(workspace)
    if places := written_needs(dict(fields), library):
        told = f" The definition asks for it at {', '.join(places[:5])}."
        caller.need("execute", told)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_absolute() and Path(text).is_dir()
    except (OSError, ValueError):
        return False
