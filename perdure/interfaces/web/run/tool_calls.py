"""The tool calls of an iteration: arguments and result of each."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.llm.attachments import size_in_words
from perdure.domain.llm.transcript import Message, ToolResultBlock, ToolUseBlock
from perdure.domain.turns.records import ToolCallRecord
from perdure.interfaces.rest.schemas import Transcript
from perdure.interfaces.web.api_calls import Api, ApiProblem, at
from perdure.interfaces.web.run.reading import read_iteration
from perdure.interfaces.web.visit import HeadingLevel, Here

router = APIRouter()
# The API gives messages from the first on, and those of a late iteration stand at the end.
PAGE, MOST_PAGES = 200, 25
MOST_CHARACTERS = 4_000
NOT_FOUND = 404


class CutText(NamedTuple):
    """A text or its beginning; if it was cut, `size` is the full size in words."""

    text: str
    size: str = ""


class ShownToolCall(NamedTuple):
    """A call with arguments and result, None if not kept; `whole` names the full result."""

    record: ToolCallRecord
    arguments: CutText | None
    result: CutText | None
    whole: str | None


@router.get("/runs/{run}/iterations/{index}/tools")
async def tools(visit: Here, run: str, index: int, level: HeadingLevel = 2) -> Response:
    """Show the tool calls of one iteration, oldest first."""
    record = (await read_iteration(visit.api, run, index)).record
    messages, all_read = await around(visit.api, run, index) if record.calls else ([], True)
    return visit.page(
        "run/tools_part.html" if visit.wants_part else "run/tools.html",
        run=run,
        index=index,
        level=level,
        calls=shown_calls(record.calls, messages),
        all_read=all_read,
    )


@router.get("/runs/{run}/results/{ref}")
async def whole(visit: Here, run: str, ref: str) -> Response:
    """Download the full result of a tool call."""
    return await visit.api.content(
        at("loops", run, "artifacts", ref), keep=("content-type", "content-disposition")
    )


def shown_calls(
    records: Iterable[ToolCallRecord], messages: Sequence[Message]
) -> tuple[ShownToolCall, ...]:
    """Match the calls with their arguments and results in the conversation."""
    asked: dict[str, ToolUseBlock] = {}
    given: dict[str, ToolResultBlock] = {}
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolUseBlock):
                asked[block.id] = block
            elif isinstance(block, ToolResultBlock):
                given[block.call_id] = block
    return tuple(_shown(one, asked.get(one.id), given.get(one.id)) for one in records)


def cut(text: str) -> CutText:
    """Cut a long text to its beginning, with its full size in words."""
    if len(text) <= MOST_CHARACTERS:
        return CutText(text)
    # Replaced, as half a character (a lone surrogate) has no bytes in UTF-8.
    return CutText(text[:MOST_CHARACTERS], size_in_words(len(text.encode("utf-8", "replace"))))


def _shown(
    record: ToolCallRecord, asked: ToolUseBlock | None, given: ToolResultBlock | None
) -> ShownToolCall:
    told = None
    if asked is not None:
        plain = json.dumps(asked.arguments, ensure_ascii=False, indent=2)
        told = cut(asked.unreadable or plain)
    if given is None:
        return ShownToolCall(record, told, None, None)
    said = cut("\n".join([given.text, *(one.words for one in given.attachments)]))
    if given.ref is None:
        return ShownToolCall(record, told, said, None)
    # The model may have been shown only the beginning; the store has all of it.
    is_part = given.ref.bytes > len(given.text.encode("utf-8", "replace"))
    size = size_in_words(given.ref.bytes) if is_part else said.size
    return ShownToolCall(record, told, CutText(said.text, size), given.ref.hash)


async def around(api: Api, run: str, index: int) -> tuple[list[Message], bool]:
    """The messages of an iteration and the next one, whose prompt begins with tool results.

    False with them if the conversation goes on behind what is read here.
    """
    own, whole = await _said(api, run, index)
    if not whole:
        return own, False
    # Those of the last iteration stand at the end of the whole conversation.
    following, whole = await _said(api, run, index + 1)
    if not following:
        following, whole = await _said(api, run, None)
    return [*own, *following], whole


async def _said(api: Api, run: str, index: int | None) -> tuple[list[Message], bool]:
    """The messages up to the end of an iteration (None: up to now), and whether these are all."""
    found: list[Message] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        query = {"iteration": index, "limit": PAGE, "cursor": cursor}
        try:
            page = await api.get(f"{at('loops', run)}/transcript", Transcript, query)
        except ApiProblem as problem:
            if problem.status != NOT_FOUND:
                raise
            return found, True
        found += page.items
        if (cursor := page.cursor) is None:
            return found, True
    return found, False
