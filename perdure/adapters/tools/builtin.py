"""Collects the built-in tools; defines `human.ask` and `artifact.read`."""

from typing import Annotated

from pydantic import Field

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.project_tools.artifacts import artifact_tools
from perdure.adapters.tools.project_tools.memory_tools import memory_tools, skill_tools
from perdure.adapters.tools.project_tools.scope import reach_of
from perdure.adapters.tools.project_tools.todos import sprint_tools, todo_tools
from perdure.adapters.tools.read_files import fs_list, fs_read, fs_search
from perdure.adapters.tools.shell.command import shell_readonly
from perdure.adapters.tools.write_files import fs_edit, fs_write
from perdure.domain.foundation.errors import PerdureError, ToolFailure
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.tools.definitions import OUTPUT_CAP_BYTES
from perdure.extending.tool_decorator import Tool, ToolContext, tool


def builtin_tools(blobs: BlobStore, artifacts: ArtifactStore | None = None) -> tuple[AnyTool, ...]:
    """The tools of the workspace; `artifact.read` takes blob addresses and ids of artifacts."""
    return (
        fs_read,
        fs_list,
        fs_search,
        fs_write,
        fs_edit,
        shell_readonly,
        human_ask(),
        artifact_read(blobs, artifacts),
    )


def kept_tools(stores: Stores) -> tuple[AnyTool, ...]:
    """The tools of the stores: artifacts, todos, sprints, memory, skills."""
    return (
        *artifact_tools(stores.artifacts, stores.blobs, now=utc_now),
        *todo_tools(stores.todos, now=utc_now),
        *sprint_tools(stores.projects, stores.todos, now=utc_now),
        *memory_tools(stores.memory, stores.artifacts, stores.blobs, now=utc_now),
        *skill_tools(stores.memory, now=utc_now),
    )


def human_ask() -> AnyTool:
    """`human.ask`: defined so that models can be offered it; the workflow answers with a gate."""

    @tool(name="human.ask", access="person", idempotent=True)
    def ask(question: str, choices: list[str] | None = None) -> str:
        """Ask the person who follows this run, and wait for the answer.

        Args:
            question: one clear question, with what the person needs to know.
            choices: possible answers; leave out for free text.
        """
        raise ToolFailure(
            f"Only a person can answer: {question} {choices or ''}".strip(), reason="person"
        )

    # The workflow opens the gate itself, so it has to see the question.
    inline = ask.fact.model_copy(update={"inline_arguments": True})
    return Tool(fact=inline, function=ask.function, arguments=ask.arguments)


def artifact_read(blobs: BlobStore, artifacts: ArtifactStore | None = None) -> AnyTool:
    """`artifact.read`: reads on in a long result, by the reference in its excerpt."""

    @tool(name="artifact.read", idempotent=True)
    async def read(
        context: ToolContext,
        ref: str,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=OUTPUT_CAP_BYTES)] = 8_000,
    ) -> str:
        """Read on in a long result or artifact that was shown as an excerpt.

        Args:
            ref: the reference as shown, such as sha256:… or artifact-….
            offset: how many characters to skip.
            limit: how many characters to show.
        """
        address = ref.strip()
        if artifacts is not None and address.startswith("artifact-"):
            # An id is guarded by scope. An address needs no guard: it is the hash of the content,
            # which only those know who were shown it.
            named = await artifacts.artifact(address, reach=reach_of(context))
            address = named.ref if named is not None else address
        text = await _text(blobs, address)
        # `>` and not `>=`: an empty text can be read too, from offset 0.
        if offset > len(text):
            raise ToolFailure(
                f"{ref} has {len(text)} characters; offset {offset} is past its end.",
                reason="range",
            )
        end = min(len(text), offset + limit)
        left = len(text) - end
        rest = f'; {left} left, read on with "offset": {end}' if left else ""
        return f"{text[offset:end]}\n[characters {offset}-{end} of {len(text)}{rest}]"

    return read


async def _text(blobs: BlobStore, ref: str) -> str:
    try:
        data = await blobs.get(ref)
    except (PerdureError, ValueError) as error:
        raise ToolFailure(
            f"There is no artifact {ref[:100]!r}. Copy the reference from the excerpt.",
            reason="not_found",
        ) from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(
            f"{ref} is binary ({len(data)} bytes) and cannot be shown as text.", reason="binary"
        ) from error
