"""The token of a request: whose it is, which runs it reaches, and what it may start."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import JsonValue, ValidationError

from perdure.domain.foundation.errors import (
    NotAllowed,
    NotFound,
    PerdureError,
    StoreAway,
    StoreError,
)
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.installation.access import (
    NO_DIGEST,
    AccessStore,
    ApiToken,
    Credentials,
    Ended,
    sources_of,
)
from perdure.domain.roles.definition import Capability
from perdure.domain.roles.definition_library import DefinitionStore
from perdure.domain.roles.resolved_loop import resolve_loop
from perdure.domain.run.spec import STARTED_BY
from perdure.domain.run.status import StoredRun
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.domain.trust_requirements import execution_needs, snapshot_needs
from perdure.interfaces.services import Services


class ShownToken(NamedTuple):
    """The usable token of a request, or why the token that it showed has ended."""

    token: ApiToken | None = None
    ended: Ended | None = None


async def caller_of(authorization: str | None, access: AccessStore, *, now: datetime) -> ShownToken:
    """The usable token in an `authorization` header, if there is one.

    That a token has ended is told only to a caller with its true secret.
    """
    kind, _, text = (authorization or "").partition(" ")
    credentials = Credentials.read(text.strip()) if kind.lower() == "bearer" else None
    if credentials is None:
        return ShownToken()
    # An unknown id is checked like a wrong secret, so that the response time does not reveal which
    # ids exist.
    known = await access.token(credentials.id) or ApiToken(
        id=credentials.id, name="nobody", scopes=(), digest=NO_DIGEST, created_at=now
    )
    standing = known.standing(credentials.secret, now)
    if standing != "usable":
        return ShownToken(ended=known.end_notice(standing))
    await note_use(access, known, now=now)
    return ShownToken(token=known)


async def note_use(access: AccessStore, token: ApiToken, *, now: datetime) -> None:
    """Record when a token was last used; if the store fails, the request is still served."""
    if token.unnoted(now):
        with suppress(PerdureError):
            await access.note_use(token.id, at=now)


async def require_usable(access: AccessStore, where: str, *, now: datetime) -> None:
    """Refuse to listen as long as no token lets anybody in.

    Args:
        access: the known tokens.
        where: who does not listen, as the beginning of a sentence.
        now: the time at which a token has to be usable.

    Raises:
        NotAllowed: there is no token, or none that is usable.
    """
    tokens = await access.tokens()
    if any(token.usable(now) for token in tokens):
        return
    gone = " that is usable: those that it knows have expired or were revoked" if tokens else ""
    raise NotAllowed(
        f"{where} until there is a token{gone}.",
        cure="Make one: perdure api token create NAME --scope read --scope operate",
    )


# Fields through which a run could see the data of others.
SHARED = ("session", "project")


async def reaches(services: Services, token: ApiToken, run: str) -> bool:
    """Whether a token reaches a run of this installation, by its id, folder or the runs above it.

    A run is also below the one whose agent started it with a tool. Links in a path are resolved, as
    far as this host knows them.
    """
    above: str | None = run
    seen = set[str]()  # what a run says of its starter could lead in a circle
    while above is not None and above not in seen:
        seen.add(above)
        row = await services.records.run(above)
        if row is None:
            return False
        if not token.bound or above in token.runs:
            return True
        try:
            if token.folders and is_below(await _workspace(services, row), token.folders):
                return True
            above = row.parent or await _starter(services, row)
        except StoreAway:
            raise
        except (NotFound, StoreError, ValidationError):
            # Nobody knows where it works or who started it. A list of other runs must not fail for
            # one whose specification is damaged, gone, or sealed with another key.
            return False
    return False


async def requested(services: Services, token: ApiToken, run: str) -> bool:
    """Whether a token asked for a run: started it or one above it, or what starts such runs.

    A run is also below the one whose agent started it with a tool.
    """
    above: str | None = run
    seen = set[str]()
    while above is not None and above not in seen:
        seen.add(above)
        started = await services.access.started_by(above)
        if started is not None and started.token == token.id:
            return True
        if token.id in await services.access.requesters(sources_of(above)):
            return True
        row = await services.records.run(above)
        above = None if row is None else row.parent or await _starter(services, row)
    return False


def require_start(token: ApiToken, spec: Mapping[str, JsonValue]) -> None:
    """Refuse a start that a bound token may not make.

    Args:
        token: whose holder wants to start a run.
        spec: what is started.

    Raises:
        NotAllowed: the folder is not one of its own, or the run would share data of others.
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
    """Whether a folder is one of some, or inside one; `/data2` is not inside `/data`."""
    if not isinstance(folder, str) or not folder or "\0" in folder:
        return False
    try:
        # A `..` after a link has two meanings: most runs start where it is cut as text, trials of
        # experiments where the link leads. Both must be inside.
        meant = [Path(one).resolve() for one in (folder, os.path.normpath(folder))]
        tops = [Path(outer).resolve() for outer in folders]
        return any(all(inner.is_relative_to(top) for inner in meant) for top in tops)
    except (OSError, RuntimeError):  # a cycle of links
        return False


async def _starter(services: Services, row: StoredRun) -> str | None:
    """The run whose agent started this one with a tool."""
    if row.kind != "roles" or row.spec is None:
        return None
    return starter_of(read_as(RUN_SPEC, await services.blobs.get(row.spec)))


def starter_of(spec: Spec) -> str | None:
    """The run whose agent started a run with a tool, by its specification."""
    found = spec.metadata.model_dump().get(STARTED_BY)
    return found if isinstance(found, str) else None


async def _workspace(services: Services, row: StoredRun) -> str | None:
    if row.spec is None:
        return None
    return read_as(RUN_SPEC, await services.blobs.get(row.spec)).workspace


def _told(token: ApiToken) -> str:
    return ", ".join(token.folders) or f"the runs {', '.join(token.runs)}"


async def trusted_places(
    spec: Mapping[str, JsonValue], definitions: DefinitionStore
) -> tuple[str, ...]:
    """Where a specification asks for something that needs the scope `execute`.

    A definition that cannot be resolved gives no places here; its start is refused later.
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
        # With all capabilities, as whether this host has them says nothing about what is asked for.
        provided=get_args(Capability),
    )
    if resolved.snapshot is None:
        return ()
    return tuple(f"the definition {name}, {place}" for place in snapshot_needs(resolved.snapshot))
