"""The tools that come with Perdure, and the two that are not about files."""

from typing import Annotated

from pydantic import Field

from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.reading import fs_list, fs_read, fs_search
from perdure.adapters.tools.shell.command import shell_readonly
from perdure.adapters.tools.writing import fs_edit, fs_write
from perdure.domain.errors import PerdureError, ToolFailure
from perdure.domain.ports import BlobStore
from perdure.domain.tools import OUTPUT_CAP_BYTES
from perdure.tooling import Tool, tool


def builtin_tools(blobs: BlobStore) -> tuple[AnyTool, ...]:
    """All built-in tools; `artifact.read` reads from `blobs`."""
    return (
        fs_read,
        fs_list,
        fs_search,
        fs_write,
        fs_edit,
        shell_readonly,
        human_ask(),
        artifact_read(blobs),
    )


def human_ask() -> AnyTool:
    """`human.ask`: known here so that it can be offered; the workflow answers it with a gate."""

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

    inline = ask.fact.model_copy(update={"inline_arguments": True})
    return Tool(fact=inline, function=ask.function, arguments=ask.arguments)


def artifact_read(blobs: BlobStore) -> AnyTool:
    """`artifact.read`: the rest of a long result, by the reference that its excerpt shows."""

    @tool(name="artifact.read", idempotent=True)
    async def read(
        ref: str,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=OUTPUT_CAP_BYTES)] = 8_000,
    ) -> str:
        """Read on in a long result or artifact that was shown as an excerpt.

        Args:
            ref: the reference as shown, such as sha256:….
            offset: how many characters to skip.
            limit: how many characters to show.
        """
        text = await _text(blobs, ref)
        if offset > len(text):
            raise ToolFailure(
                f"{ref} has {len(text)} characters; offset {offset} is behind its end.",
                reason="range",
            )
        end = min(len(text), offset + limit)
        left = len(text) - end
        rest = f'; {left} left, read on with "offset": {end}' if left else ""
        return f"{text[offset:end]}\n[characters {offset}-{end} of {len(text)}{rest}]"

    return read


async def _text(blobs: BlobStore, ref: str) -> str:
    try:
        data = await blobs.get(ref.strip())
    except (PerdureError, ValueError) as error:
        raise ToolFailure(
            f"There is no artifact {ref[:100]!r}. Copy the reference from the excerpt.",
            reason="not_found",
        ) from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(
            f"{ref} holds {len(data)} bytes that are not text.", reason="binary"
        ) from error
