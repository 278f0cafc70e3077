"""What a token that is bound to runs or folders reaches."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.status import StoredRun
from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.services import Services

# Fields that let a run see what others left there.
SHARED = ("session", "project")


async def reaches(services: Services, token: ApiToken, run: str) -> bool:
    """Whether a token reaches a run of this installation: by its id, folder, or whom it works for.

    A link on the way to a folder counts for where it leads, as far as this host knows it.
    """
    above: str | None = run
    while above is not None:
        row = await services.records.run(above)
        if row is None:
            return False
        if not token.bound or above in token.runs:
            return True
        if token.folders and is_below(await _workspace(services, row), token.folders):
            return True
        above = row.parent
    return False


def require_start(token: ApiToken, spec: Mapping[str, JsonValue]) -> None:
    """Refuse what a bound token may not start.

    Args:
        token: whose holder wants to start a run.
        spec: what is started.

    Raises:
        NotAllowed: the folder is none of its own, or the run would share what others left.
    """
    if not token.bound:
        return
    if not is_below(spec.get("workspace"), token.folders):
        raise NotAllowed(
            f"The token {token.name!r} is bound to {_told(token)}, and starts nothing elsewhere.",
            cure="Name a workspace below one of its folders, or use a token that is not bound.",
        )
    inner = spec.get("roles")
    fields = {**(inner if isinstance(inner, dict) else {}), **spec}
    if shared := [name for name in SHARED if fields.get(name) is not None]:
        raise NotAllowed(
            f"The token {token.name!r} is bound to {_told(token)}, so its runs join no "
            f"{shared[0]} of others.",
            cure=f"Leave out {shared[0]}, or use a token that is not bound.",
        )


def is_below(folder: JsonValue, folders: Iterable[str]) -> bool:
    """Whether a folder is one of some, or below one; whole names count, not beginnings."""
    if not isinstance(folder, str) or not folder or "\0" in folder:
        return False
    try:
        inner = Path(folder).resolve()
        return any(inner.is_relative_to(Path(outer).resolve()) for outer in folders)
    except (OSError, RuntimeError):  # a loop of links
        return False


async def _workspace(services: Services, row: StoredRun) -> str | None:
    if row.spec is None:
        return None
    return read_as(RUN_SPEC, await services.blobs.get(row.spec)).workspace


def _told(token: ApiToken) -> str:
    return ", ".join(token.folders) or f"the runs {', '.join(token.runs)}"
