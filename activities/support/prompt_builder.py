"""Turns the entries of a request into messages; only activities can read the content."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ToolResultBlock,
    user_message,
    with_attachments,
)
from perdure.domain.outputs.compression import Compressed
from perdure.domain.outputs.parts import part_text
from perdure.domain.ports import BlobStore
from perdure.domain.refine.planning import planner_prompt
from perdure.domain.refine.prompts import (
    Brief,
    added_text,
    first_messages,
    in_force_text,
    judge_prompt,
    judge_task,
    part_request,
    task_text,
)
from perdure.domain.refine.state import RefineFrame, refine_frame
from perdure.domain.roles.messages import stage_frame
from perdure.domain.roles.prompts import Told, goal_prompt, stage_prompt
from perdure.domain.run.activity_messages import Frame
from perdure.domain.scoring.feedback import (
    delta_feedback,
    excerpt_for_judge,
    failure_feedback,
    later_messages,
    shown_draft,
)
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
from perdure.domain.turns.guidance import LOST_TEXT


class RolePrompts:
    """Loads what stages said; the domain writes the prompts."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def stage(self, entry: StageEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The task of a stage."""
        told = await self._told(frame, [*(stage.ref for stage in entry.done), entry.review])
        return (user_message(stage_prompt(stage_frame(frame), entry, told), pinned=True),)

    async def goal(self, entry: GoalEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The goal judge's question, with the stages' outputs but not their conversations."""
        told = await self._told(frame, (stage.ref for stage in entry.done))
        return (user_message(goal_prompt(stage_frame(frame), entry, told), pinned=True),)

    async def _told(self, frame: Frame, refs: Iterable[str | None]) -> Told:
        texts = {ref: await self._blobs.get_text(ref) for ref in refs if ref is not None}
        return Told(goal=frame.goal, inputs=frame.inputs, texts=texts)


class RefinePrompts:
    """Loads outputs; the domain writes the prompts."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def iteration(
        self, entry: RefineEntry, *, frame: Frame, small_model: bool
    ) -> tuple[Message, ...]:
        """The first request, a later one with what is missing, or the request for one part."""
        own = refine_frame(frame)
        brief = Brief(
            goal=frame.goal,
            context=frame.inputs,
            plan=entry.plan,
            recalled=await self._read(entry.recalled),
            skills=await self._read(entry.skills),
            guidance=entry.guidance,
            approach=entry.approach,
            adaptation=entry.adaptation,
        )
        if entry.part is not None:
            return part_request(
                brief,
                own.rubric,
                own.output,
                part=entry.part,
                evaluation=entry.evaluation,
                draft=await self._part_draft(entry, own, small_model=small_model),
            ).messages
        if entry.evaluation is None and entry.error is None:
            return first_messages(brief, own.rubric, own.output)
        return later_messages(
            task_text(brief, own.rubric, own.output.parts),
            previous=await self._draft(entry, own, small_model=small_model),
            feedback=_feedback(entry, own),
            added=added_text(brief),
        )

    async def planning(self, entry: PlanEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The planner's question: the task as the executor will see it."""
        own = refine_frame(frame)
        brief = Brief(
            goal=frame.goal,
            context=frame.inputs,
            recalled=await self._read(entry.recalled),
            skills=await self._read(entry.skills),
        )
        values = in_force_text(entry.adaptation) if entry.adaptation else ""
        prompt = planner_prompt(
            "\n\n".join(filter(None, (task_text(brief, own.rubric, own.output.parts), values))),
            tools=[tool.name for tool in frame.tools],
            problems=entry.problems,
        )
        return (user_message(prompt, pinned=True),)

    async def judgement(self, entry: JudgeEntry, *, frame: Frame) -> tuple[Message, ...]:
        """The judge's question; it never sees the executor's conversation."""
        rubric = refine_frame(frame).rubric
        work = Compressed(await self._blobs.get_text(entry.output))
        if entry.changed:
            work = excerpt_for_judge(work.text, changed=entry.changed, findings=entry.open_findings)
        prompt = judge_prompt(
            frame.goal,
            [item for item in rubric.dimensions if item.name in entry.dimensions],
            work.text,
            inputs=frame.inputs,
            open_findings=entry.open_findings,
            problems=entry.problems,
            earlier=entry.earlier,
            folded=work.folds > 0,
            said=entry.said,
            cut=entry.cut,
            adaptation=entry.adaptation,
        )
        # In a block of its own, first: it is the same for every draft, so the provider can cache
        # it.
        constant = judge_task(frame.goal, frame.inputs)
        changing = prompt.removeprefix(constant).lstrip("\n")
        return (user_message(constant, changing, pinned=True),)

    async def _read(self, address: str | None) -> str:
        return "" if address is None else await self._blobs.get_text(address)

    async def _part_draft(
        self, entry: RefineEntry, own: RefineFrame, *, small_model: bool
    ) -> str | None:
        """The part as it is in the best output."""
        if entry.previous is None or entry.part is None:
            return None
        if not own.output.shows_draft(small_model=small_model):
            return None
        whole = await self._blobs.get_text(entry.previous)
        return part_text(whole, entry.part, own.output.parts, as_json=True)

    async def _draft(
        self, entry: RefineEntry, own: RefineFrame, *, small_model: bool
    ) -> Compressed | None:
        if entry.previous is None or entry.error is not None or entry.evaluation is None:
            return None
        if not own.output.shows_draft(small_model=small_model):
            return None
        return shown_draft(
            own.rubric,
            entry.evaluation,
            await self._blobs.get_text(entry.previous),
            threshold=entry.threshold,
            changed=entry.changed,
        )


def _feedback(entry: RefineEntry, own: RefineFrame) -> str:
    delta = ""
    if entry.evaluation is not None:
        delta = delta_feedback(own.rubric, entry.evaluation, threshold=entry.threshold)
    return delta if entry.error is None else failure_feedback(entry.error, delta)


class PromptBuilder:
    """Builds messages from entries; reads blobs and writes nothing."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._refine = RefinePrompts(blobs)
        self._roles = RolePrompts(blobs)

    async def messages(
        self, entries: Sequence[Entry], *, frame: Frame, small_model: bool, reads: bool
    ) -> list[Message]:
        """The messages; with `reads` who gets them has `artifact.read`."""
        composed: list[Message] = []
        for entry in entries:
            match entry:
                case SayEntry():
                    composed.append(await self._say(entry))
                case ResultsEntry():
                    blocks = [await self._result(one, reads=reads) for one in entry.results]
                    composed.append(Message(role="user", blocks=tuple(blocks)))
                case RefineEntry() | PlanEntry() | JudgeEntry() | StageEntry() | GoalEntry():
                    told = await self._task(entry, frame=frame, small_model=small_model)
                    # Whoever is told the task is shown what belongs to it.
                    composed += [with_attachments(told[0], frame.attachments), *told[1:]]
                case _:
                    assert_never(entry)
        return composed

    async def _task(
        self,
        entry: RefineEntry | PlanEntry | JudgeEntry | StageEntry | GoalEntry,
        *,
        frame: Frame,
        small_model: bool,
    ) -> tuple[Message, ...]:
        """The messages that tell the task to one who does, plans or judges it."""
        match entry:
            case RefineEntry():
                return await self._refine.iteration(entry, frame=frame, small_model=small_model)
            case PlanEntry():
                return await self._refine.planning(entry, frame=frame)
            case JudgeEntry():
                return await self._refine.judgement(entry, frame=frame)
            case StageEntry():
                return await self._roles.stage(entry, frame=frame)
            case GoalEntry():
                return await self._roles.goal(entry, frame=frame)

    async def _say(self, entry: SayEntry) -> Message:
        text = entry.text if entry.ref is None else await self._added(entry, entry.ref)
        block = TextBlock(type="text", text=text)
        return Message(role=entry.role, blocks=(block,), pinned=entry.pinned)

    async def _added(self, entry: SayEntry, address: str) -> str:
        try:
            return await self._blobs.get_text(address)
        except (NotFound, InvalidInput):
            # What people said is pinned, and no message may fail a run. Everything else is a
            # question of ours, which no model could answer without its text.
            if not entry.pinned:
                raise
            return entry.text or LOST_TEXT

    async def _result(self, entry: ToolResultEntry, *, reads: bool) -> ToolResultBlock:
        text = ""
        if entry.ref is not None:
            whole = await self._blobs.get_text(entry.ref.hash)
            # A long result is cut here, with a reference: the model can read on with a tool, and
            # the whole stays out of every later prompt.
            text = excerpt(whole, reference=entry.ref.hash, reads=reads)
        shown = "\n".join(part for part in (entry.note, text) if part)
        return ToolResultBlock(
            type="tool_result",
            call_id=entry.call_id,
            name=entry.name,
            outcome=entry.outcome,
            text=shown or "(no output)",
            ref=entry.ref,
            attachments=entry.attachments,
        )
