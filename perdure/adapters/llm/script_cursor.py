"""Chooses the entry of a script that answers a call, and records which entries are used up.

One attempt uses up an `error` entry; one logical call uses up any other, and gets it again at each
retry. The cursor is kept in the store, per run. Its keys contain the script's address, so that
models of one run with several scripts do not count each other's entries.
"""

import asyncio
from collections.abc import Mapping

from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.script import Entry, Script, When
from perdure.adapters.stores.waiting_stores import in_store
from perdure.domain.foundation.retry_policies import impatient
from perdure.domain.llm.requests import CallContext, ModelRequest
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.domain.ports import RecordStore

LABEL = "#"
Uses = Mapping[int, int]


class ScriptCursor:
    """Takes entries; within this process one call after the other."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        self._lock = asyncio.Lock()

    async def take(
        self, script: Script, request: ModelRequest, *, address: str
    ) -> tuple[int, Entry]:
        """The entry for this attempt with its index, recorded as taken before it is returned.

        Raises:
            ModelError: kind `bad_request`: the script has no entry left for this call.
        """
        return await in_store(lambda: self._take(script, request, address=address))

    async def _take(
        self, script: Script, request: ModelRequest, *, address: str
    ) -> tuple[int, Entry]:
        context = request.context
        call, attempt = _names(context, address)
        # `impatient`: while the lock is held, an absent store raises at once, and `in_store` waits
        # for it outside. Calls that wait for the lock would not count as waiting for the store.
        async with self._lock:
            with impatient():
                index = await self._held(script, context.run, attempt, call)
                if index is None:
                    uses = await self._uses(context.run, address)
                    index = _next(script, uses, request)
                    key = attempt if script.replies[index].failure else call
                    await self._records.take_script_entry(context.run, key, index)
        return index, script.replies[index]

    async def peek(self, script: Script, request: ModelRequest, *, address: str) -> int | None:
        """The index of the entry that `take` would return; None if none is left."""
        context = request.context
        call, attempt = _names(context, address)
        index = await self._held(script, context.run, attempt, call)
        if index is not None:
            return index
        return _fitting(script, await self._uses(context.run, address), request)

    async def _held(self, script: Script, run: str, attempt: str, call: str) -> int | None:
        """The entry that this attempt, or otherwise this logical call, has already taken."""
        held = await self._records.script_held(run, (attempt, call))
        for index in (held.get(attempt), held.get(call)):
            if index is not None and index < len(script.replies):
                return index
        return None

    async def _uses(self, run: str, address: str) -> Uses:
        return await self._records.script_uses(run, f"{address}/")


def matches(when: When, request: ModelRequest) -> bool:
    """Whether an entry is meant for this call."""
    context = request.context
    pairs = ((when.role, context.role), (when.iteration, context.iteration))
    if any(wanted is not None and wanted != found for wanted, found in pairs):
        return False
    if when.worker is not None and when.worker != context.worker:
        return False
    if when.model is not None and when.model not in {request.model, label_of(request.model)}:
        return False
    shown = {one.media_type for message in request.messages for one in message.attachments}
    if when.sees is not None and when.sees not in shown:
        return False
    return when.contains is None or when.contains in visible_text(request)


def _names(context: CallContext, address: str) -> tuple[str, str]:
    """The keys under which an entry is recorded: of the logical call, and of this attempt."""
    return (
        # A call that is made anew after a kill has another key, and must get the same entry.
        f"{address}/{context.call or context.key}",
        f"{address}/{context.key}#{context.attempt}",
    )


def label_of(model: str) -> str:
    """The label after `#` in the model's name, by which one script can play several models."""
    return model.partition(LABEL)[2]


def visible_text(request: ModelRequest) -> str:
    """Everything the model is shown, as text."""
    return "\n".join([request.system, *(_shown(message) for message in request.messages)])


def _shown(message: Message) -> str:
    parts: list[str] = []
    for block in message.blocks:
        match block:
            case TextBlock() | ToolResultBlock():
                parts.append(block.text)
            case ToolUseBlock():
                parts.append(f"{block.name} {block.arguments}")
            case AttachmentBlock():
                parts.append(block.file.words)
            case _:
                pass
    return "\n".join(parts)


def _next(script: Script, uses: Uses, request: ModelRequest) -> int:
    index = _fitting(script, uses, request)
    if index is None:
        raise unsent_error(_exhausted(script, uses, request))
    return index


def _fitting(script: Script, uses: Uses, request: ModelRequest) -> int | None:
    last: int | None = None
    for index, entry in enumerate(script.replies):
        left = uses.get(index, 0) < entry.times
        # An entry that is used up matters only if the last match may be repeated.
        if (left or script.exhausted == "repeat_last") and matches(entry.when, request):
            if left:
                return index
            last = index
    return last


def _exhausted(script: Script, uses: Uses, request: ModelRequest) -> str:
    context = request.context
    worker = f", worker {context.worker}" if context.worker else ""
    left = [
        f"replies[{index}] for {_meant(entry.when)}"
        for index, entry in enumerate(script.replies)
        if uses.get(index, 0) < entry.times
    ]
    return (
        f"The script has no reply left for role {context.role}, iteration {context.iteration}"
        f"{worker}. Left: {'; '.join(left) or 'nothing'}. "
        "Add a reply, raise `times`, or set `exhausted: repeat_last`."
    )


def _meant(when: When) -> str:
    wanted = when.model_dump(exclude_none=True)
    return ", ".join(f"{name} {value}" for name, value in wanted.items()) or "any call"
