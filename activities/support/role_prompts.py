"""Composes what the stages of a role loop and its goal judge are asked, from references."""

from collections.abc import Iterable

from perdure.domain.llm.transcript import Message, user_text
from perdure.domain.ports import BlobStore
from perdure.domain.roles.messages import stage_frame
from perdure.domain.roles.prompts import Told, goal_prompt, stage_prompt
from perdure.domain.run.activity_messages import Frame
from perdure.domain.turns.entries import GoalEntry, StageEntry


class RolePrompts:
    """Reads what stages said, and lets the domain write the words."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def stage(self, entry: StageEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The task of a stage."""
        told = await self._told(frame, [*(stage.ref for stage in entry.done), entry.review])
        return (user_text(stage_prompt(stage_frame(frame), entry, told), pinned=True),)

    async def goal(self, entry: GoalEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The goal judge's question; it sees what the stages said, not their conversations."""
        told = await self._told(frame, (stage.ref for stage in entry.done))
        return (user_text(goal_prompt(stage_frame(frame), entry, told), pinned=True),)

    async def _told(self, frame: Frame, refs: Iterable[str | None]) -> Told:
        texts = {ref: await self._blobs.get_text(ref) for ref in refs if ref is not None}
        return Told(goal=frame.goal, inputs=frame.inputs, texts=texts)
