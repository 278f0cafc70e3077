"""`artifact.write` and `artifact.list`: texts that a stage leaves for later ones."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from pydantic import Field

from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.project_tools.scope import id_of, reach_of, shared
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LEARNING, LOOP_OUTPUT, NOTE, Artifact, ScopeKind
from perdure.extending.tool_decorator import ToolContext, tool

CONTENT_CHARACTERS = 1_000_000
NAME_CHARACTERS = 200
ARTIFACTS_OF_A_SCOPE = 2_000
LISTED = 50
# The loop itself writes artifacts of these kinds, and relies on their content.
RESERVED_KINDS = frozenset({LOOP_OUTPUT, LEARNING})
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,80}")


def artifact_tools(
    artifacts: ArtifactStore, blobs: BlobStore, *, now: Callable[[], datetime]
) -> tuple[AnyTool, ...]:
    """The two tools; `artifact.read` is a built-in tool of every run."""
    return _write(artifacts, blobs, now=now), _list(artifacts)


def _write(artifacts: ArtifactStore, blobs: BlobStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="artifact.write", idempotent=True)
    async def write(
        context: ToolContext,
        name: Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)],
        content: Annotated[str, Field(max_length=CONTENT_CHARACTERS)],
        kind: str = NOTE,
        media_type: str = "text/markdown",
        scope: ScopeKind | None = None,
    ) -> str:
        """Keep a text for later stages and runs, apart from the workspace's files.

        Args:
            name: a short title or file name.
            content: the whole text.
            kind: what it is, such as note, plan or report.
            media_type: such as text/markdown or application/json.
            scope: who else may read it: run, session or project; left out: the widest there is.
        """
        data = content.encode("utf-8", "replace")
        # The content is stored before the row, so that no row names a blob that is not there.
        artifact = Artifact(
            id=id_of("artifact", context),
            belongs=reach_of(context).belonging(scope),
            run=context.run,
            iteration=context.iteration,
            stage=context.stage,
            kind=_kind(kind),
            name=" ".join(name.split()) or NOTE,
            media_type=_media_type(media_type),
            ref=await blobs.put(data),
            bytes=len(data),
            created_at=now(),
        )
        kept = await artifacts.add_artifact(artifact, limit=ARTIFACTS_OF_A_SCOPE)
        return f"Kept as {kept.id} for the {kept.belongs.scope}: {kept.name}, {kept.bytes:,} bytes."

    return shared(write)


def _list(artifacts: ArtifactStore) -> AnyTool:
    @tool(name="artifact.list", idempotent=True)
    async def list_(
        context: ToolContext,
        kind: str | None = None,
        limit: Annotated[int, Field(ge=1, le=200)] = LISTED,
    ) -> str:
        """List what was kept by this run and by the runs it shares a session or project with.

        Args:
            kind: of this kind alone, such as loop_output.
            limit: how many, the newest first.
        """
        found = await artifacts.artifacts(reach=reach_of(context), kind=kind, limit=limit + 1)
        if not found:
            return "There are no artifacts yet."
        lines = [_line(artifact) for artifact in found[:limit]]
        more = ["[there are older ones: raise limit]"] if len(found) > limit else []
        way = f'[read one with artifact.read {{"ref": "{found[0].id}"}}]'
        return "\n".join([*lines, *more, way])

    return shared(list_)


def _line(artifact: Artifact) -> str:
    stage = f" of {artifact.stage}" if artifact.stage else ""
    where = f"iteration {artifact.iteration}{stage}, {artifact.belongs.scope}"
    return f"{artifact.id} {artifact.kind}: {artifact.name} ({artifact.bytes:,} bytes, {where})"


def _kind(kind: str) -> str:
    if not _KIND.fullmatch(kind) or kind in RESERVED_KINDS:
        raise ToolFailure(
            f"kind: {kind[:60]!r} cannot be used. Use a word such as note, plan or report; "
            f"{' and '.join(sorted(RESERVED_KINDS))} are reserved for the loop itself.",
            reason="invalid_arguments",
        )
    return kind


def _media_type(media_type: str) -> str:
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise ToolFailure(
            f"media_type: {media_type[:60]!r} is not a media type. Use one such as text/markdown.",
            reason="invalid_arguments",
        )
    return media_type
