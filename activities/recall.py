"""The activity `recall`: look up what earlier runs left for a task."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.timer import Stopwatch
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.memory.recall import SKILL_LIMIT, TOLD_KINDS, recalled, report_of
from perdure.domain.memory.recall_messages import RecallReport, RecallRequest
from perdure.domain.memory.store import MemoryStore
from perdure.domain.memory.tokenizer import question
from perdure.domain.ports import BlobStore


class Recall:
    """Asks memory, stores what the models will read, and marks what was used."""

    def __init__(self, *, memory: MemoryStore, blobs: BlobStore) -> None:
        self._memory = memory
        self._blobs = blobs

    @activity.defn
    @translated
    async def recall(self, step: RecallRequest) -> RecallReport:
        """Forget what has faded, look up, choose, tell; a repeat counts no use twice."""
        watch = Stopwatch()
        await self._memory.forget_faded(step.now)
        asked = question(step.goal, step.category)
        known = await self._memory.candidates(asked, kinds=TOLD_KINDS)
        skills = await self._memory.candidates(asked, kinds=("skill",), limit=SKILL_LIMIT)
        named = [await self._memory.skill(name) for name in step.skills]
        found = recalled(step, known, skills, [skill for skill in named if skill])
        await self._memory.mark_used(found.used, run=step.run, at=step.now)
        return report_of(
            found,
            text=await self._stored(found.knowledge.text),
            skills_text=await self._stored(found.skills.text),
            seconds=watch.seconds,
        )

    async def _stored(self, text: str) -> BlobRef | None:
        return await self._blobs.put_text(text) if text else None
