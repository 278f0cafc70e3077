"""The activities of memory: `recall`, `review`, `extract`, `keep_learnings` and `mine`.

The ids of entries derive from the run and the rule, so a retried step adds nothing twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Stopwatch
from perdure.activities.support.run_storage import Frames, records_of
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import estimate
from perdure.domain.installation.model_rates import QueuesOf, no_queues
from perdure.domain.memory.entries import Event, Learning, Skill
from perdure.domain.memory.learn_messages import (
    ExtractReport,
    ExtractRequest,
    KeepReport,
    KeepRequest,
    ReviewReport,
    ReviewRequest,
)
from perdure.domain.memory.learner_reply import (
    LEARNER_SYSTEM,
    learner_prompt,
    learner_schema,
    learnings_of,
    read_learnings,
)
from perdure.domain.memory.patterns import MineReport, MineRequest, mined, proposable
from perdure.domain.memory.recall import (
    SKILL_LIMIT,
    TOLD_KINDS,
    RecallReport,
    RecallRequest,
    recalled,
    report_of,
)
from perdure.domain.memory.rule_lessons import (
    EndedRun,
    RunHistory,
    course_of,
    episode_of,
    is_worth_asking,
    lessons_of,
)
from perdure.domain.memory.skills import approved, proposals
from perdure.domain.memory.store import MemoryStore
from perdure.domain.memory.tokenizer import question_terms
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.activity_messages import Frame


class Recall:
    """Looks up memory, stores what the models will read, and marks what was used."""

    def __init__(self, *, memory: MemoryStore, blobs: BlobStore) -> None:
        self._memory = memory
        self._blobs = blobs

    @activity.defn
    @translated
    async def recall(self, step: RecallRequest) -> RecallReport:
        """Drop faded entries, look up and select the rest; a repeat counts no use twice."""
        watch = Stopwatch()
        await self._memory.forget_faded(step.now)
        asked = question_terms(step.goal, step.category)
        known = await self._memory.candidates(asked, kinds=TOLD_KINDS)
        skills = await self._memory.candidates(asked, kinds=("skill",), limit=SKILL_LIMIT)
        named = [await self._memory.skill(name) for name in step.skills]
        found = recalled(step, known, skills, [skill for skill in named if skill])
        # Marked per run, so that a retried step does not count a memory as used twice.
        await self._memory.mark_used(found.used, run=step.run, at=step.now)
        return report_of(
            found,
            text=await self._stored(found.knowledge.text),
            skills_text=await self._stored(found.skills.text),
            seconds=watch.seconds,
        )

    async def _stored(self, text: str) -> BlobRef | None:
        return await self._blobs.put_text(text) if text else None


SKILLS_LOOKED_AT = 1_000
NO_MODEL = "the run names no learner model"
SMALL_MODEL = "the learner is a small model, so the rules alone decided"


@dataclass(frozen=True, kw_only=True)
class Review:
    """Applies the rules to a run that has ended, and decides whether to ask a model too."""

    records: RecordStore
    memory: MemoryStore
    blobs: BlobStore
    frames: Frames
    trusts_skills: bool = False
    queues: QueuesOf = no_queues

    @activity.defn
    @translated
    async def review(self, step: ReviewRequest) -> ReviewReport:
        """Store lessons, rate the memories that the run used, prepare the model's question."""
        source = step.source
        course = course_of(source, await records_of(self.records, source.id))
        # Lessons first: they hold even if no model can be asked.
        kept = await keep(self.memory, lessons_of(course))
        await self.memory.put(episode_of(course))
        if self.trusts_skills and source.outcome == "accepted":
            await self._approve(source)
        heard = await self.memory.record_outcome(source.id, accepted=source.outcome == "accepted")
        report = ReviewReport(kept=kept.kept, reinforced=kept.reinforced, heard=len(heard))
        return await self._with_question(report, step, course)

    async def _approve(self, source: EndedRun) -> None:
        """Approve the skills that the run wrote, if the operator's settings allow that."""
        known = await self.memory.list(kinds=("skill",), limit=SKILLS_LOOKED_AT)
        written = [entry for entry in known if isinstance(entry, Skill)]
        for waiting in proposals(written, run=source.id):
            skill = approved(
                waiting, outcome=source.outcome, by="the settings", now=source.ended_at
            )
            try:
                await self.memory.put(skill)
            except NotAllowed:
                continue  # a person wrote a skill of that name; the proposal waits for another
            # Last: a kill before it leaves a proposal that is approved again, and loses nothing.
            await self.memory.forget(waiting.id)

    async def _with_question(
        self, report: ReviewReport, step: ReviewRequest, course: RunHistory
    ) -> ReviewReport:
        if not is_worth_asking(course):
            return report
        frame = await self._frame(step)
        if frame is None:
            return report.model_copy(update={"note": NO_MODEL})
        # What a model writes here enters the prompts of later runs, so a small one is not asked.
        if frame.cards[step.chain[0]].small:
            return report.model_copy(update={"note": SMALL_MODEL})
        return report.model_copy(
            update={
                "frame": await self.blobs.put(frame.model_dump_json().encode()),
                "cards": frame.cards,
                "queues": self.queues(tuple(frame.cards)),
                "system_tokens": estimate(LEARNER_SYSTEM).total,
                "question": await self.blobs.put_text(learner_prompt(course)),
            }
        )

    async def _frame(self, step: ReviewRequest) -> Frame | None:
        """The ended run's frame, changed for the learning run: own budget, no tools, no inputs."""
        if step.source.frame is None or not step.chain:
            return None
        try:
            run = await self.frames.load(step.source.frame)
        except NotFound:
            return None
        cards = {name: run.cards[name] for name in step.chain if name in run.cards}
        # A model whose price the run did not pin cannot be budgeted here.
        if len(cards) < len(step.chain):
            return None
        return run.model_copy(
            update={
                "run": step.run,
                "root": step.run,
                "kind": "learn",
                "system": LEARNER_SYSTEM,
                "inputs": {},
                "tools": (),
                "aliases": {},
                "cards": cards,
                "chains": {"learner": step.chain},
                "extra": {},
            }
        )


class Extract:
    """Asks a model what a run teaches. Its answer is data: later runs see it quoted."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def extract(self, step: ExtractRequest) -> ExtractReport:
        """Ask for lessons and validate them."""
        answered = await self._structured.ask(
            step.call, schema=learner_schema(), read=read_learnings
        )
        return ExtractReport(
            call=answered.call, learnings=answered.value or (), problems=answered.problems
        )


class KeepLearnings:
    """Puts a model's lessons into memory."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory

    @activity.defn
    @translated
    async def keep_learnings(self, step: KeepRequest) -> KeepReport:
        """Store each lesson, or strengthen the one that says the same."""
        return await keep(self._memory, learnings_of(step.source, step.learnings))


async def keep(memory: MemoryStore, learnings: Sequence[Learning]) -> KeepReport:
    """Store learnings; one that an earlier attempt wrote still counts as new."""
    kept = 0
    for learning in learnings:
        standing = await memory.put(learning)
        kept += standing.entry.id == learning.id
    return KeepReport(kept=kept, reinforced=len(learnings) - kept)


EVENTS_LOOKED_AT = 20_000
PATTERNS_KEPT = 1_000


class Mine:
    """Finds patterns, and proposes those that are certain enough to a person."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory

    @activity.defn
    @translated
    async def mine(self, step: MineRequest) -> MineReport:
        """Write new proposals, update known patterns, drop faded entries.

        A person's decision about a pattern stays, whatever is seen later.
        """
        events = await self._memory.list(kinds=("event",), limit=EVENTS_LOOKED_AT)
        known = await self._memory.list(kinds=("pattern",), limit=PATTERNS_KEPT)
        ids = {entry.id for entry in known}
        found = mined([entry for entry in events if isinstance(entry, Event)], now=step.now)
        for pattern in found:
            if pattern.id in ids or proposable(pattern):
                await self._memory.put(pattern)
        forgotten = await self._memory.forget_faded(step.now)
        return MineReport(
            events=len(events),
            found=len(found),
            proposed=sum(pattern.id not in ids and proposable(pattern) for pattern in found),
            forgotten=forgotten,
        )
