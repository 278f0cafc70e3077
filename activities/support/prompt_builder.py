"""Turning the entries of a request into messages, where the content is."""

from collections.abc import Sequence
from typing import assert_never

from perdure.activities.support.refine_prompts import RefinePrompts
from perdure.activities.support.role_prompts import RolePrompts
from perdure.domain.llm.transcript import Message, TextBlock, ToolResultBlock
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import Frame
from perdure.domain.tools.definitions import excerpt
from perdure.domain.turns.entries import (
    Entry,
    GoalEntry,
    JudgeEntry,
    PlanEntry,
    RefineEntry,
    ResultsEntry,
    SayEntry,
    StageEntry,
    ToolResultEntry,
)


class PromptBuilder:
    """Composes messages; reads blobs, writes nothing."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._refine = RefinePrompts(blobs)
        self._roles = RolePrompts(blobs)

    async def messages(
        self, entries: Sequence[Entry], *, frame: Frame, small_model: bool
    ) -> list[Message]:
        """One list of messages for all entries, in order."""
        composed: list[Message] = []
        for entry in entries:
            match entry:
                case SayEntry():
                    composed.append(await self._say(entry))
                case ResultsEntry():
                    blocks = [await self._result(result) for result in entry.results]
                    composed.append(Message(role="user", blocks=tuple(blocks)))
                case RefineEntry():
                    composed.extend(
                        await self._refine.iteration(entry, frame=frame, small_model=small_model)
                    )
                case PlanEntry():
                    composed.extend(await self._refine.planning(entry, frame=frame))
                case JudgeEntry():
                    composed.extend(await self._refine.judgement(entry, frame=frame))
                case StageEntry():
                    composed.extend(await self._roles.stage(entry, frame=frame))
                case GoalEntry():
                    composed.extend(await self._roles.goal(entry, frame=frame))
                case _:
                    assert_never(entry)
        return composed

    async def _say(self, entry: SayEntry) -> Message:
        text = entry.text if entry.ref is None else await self._blobs.get_text(entry.ref)
        block = TextBlock(type="text", text=text)
        return Message(role=entry.role, blocks=(block,), pinned=entry.pinned)

    async def _result(self, entry: ToolResultEntry) -> ToolResultBlock:
        text = ""
        if entry.ref is not None:
            whole = await self._blobs.get_text(entry.ref.hash)
            text = excerpt(whole, reference=entry.ref.hash)
        shown = "\n".join(part for part in (entry.note, text) if part)
        return ToolResultBlock(
            type="tool_result",
            call_id=entry.call_id,
            name=entry.name,
            outcome=entry.outcome,
            text=shown or "(no output)",
            ref=entry.ref,
        )
