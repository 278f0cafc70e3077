"""The activities `read_work`, `review_work` and `merge_work`: workers' results and files."""

import asyncio
from collections.abc import Callable
from functools import partial

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Stopwatch
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.delegation.compared_output import compared, reading_of
from perdure.domain.delegation.confidence import ToolUse
from perdure.domain.delegation.deliverables import Inspector
from perdure.domain.delegation.messages import (
    MergeReport,
    MergeRequest,
    ReadWorkReport,
    ReadWorkRequest,
    ReviewReport,
    ReviewRequest,
    WorkDone,
    WorkRead,
)
from perdure.domain.delegation.prompts import CRITERIA_SYSTEM, CRITIC_SYSTEM, critic_prompt
from perdure.domain.delegation.results import WorkerResult
from perdure.domain.delegation.schemas import criteria_schema, critique_schema
from perdure.domain.delegation.skills import is_skill_file
from perdure.domain.delegation.summary import (
    NAMES_KEPT,
    confidence_of,
    finding_of,
    findings_kept,
    is_doubtful,
    is_usable_result,
    result_text,
    results_text,
    wanted_tools,
)
from perdure.domain.delegation.worker_reply import read_worker
from perdure.domain.delegation.worker_review import read_criteria, read_critique
from perdure.domain.foundation.json_extraction import as_text
from perdure.domain.ports import BlobStore
from perdure.domain.tools.workspaces import Workspaces

Similarity = Callable[[str, str], float]


class ReadWork:
    """Reads workers' outputs; `similarity` compares two texts exactly, from 0 to 1."""

    def __init__(self, *, blobs: BlobStore, similarity: Similarity, inspector: Inspector) -> None:
        self._blobs = blobs
        self._inspector = inspector
        self._similarity = similarity

    @activity.defn
    @translated
    async def read_work(self, step: ReadWorkRequest) -> ReadWorkReport:
        """Read each output, join them, and compare them with an earlier iteration's."""
        watch = Stopwatch()
        texts = [await self._text(done.output) for done in step.work]
        read = [await self._read(done, text) for done, text in zip(step.work, texts, strict=True)]
        results = [
            (done.worker, await self._text(one.result))
            for done, one in zip(step.work, read, strict=True)
        ]
        whole = results_text(results)
        # Results are compared, not replies: the fields around them are alike whatever they say.
        # Only the stall rules read this text; what workers gave is stored whole, beside it.
        joined = reading_of([text for _, text in results])
        output = await self._blobs.put_text(joined) if joined else None
        before = await self._text(step.before)
        similarity = None
        if joined and before:
            # In an activity, never in the workflow: a new release of the library may round
            # differently, and a replay must decide as before.
            similarity = await asyncio.to_thread(self._similarity, *compared(before, joined))
        return ReadWorkReport(
            work=tuple(read),
            output=output,
            results=await self._blobs.put_text(whole) if whole else None,
            similarity=similarity,
            seconds=watch.seconds,
        )

    async def _text(self, address: str | None) -> str:
        return "" if address is None else await self._blobs.get_text(address)

    async def _read(self, done: WorkDone, text: str) -> WorkRead:
        if done.error and not text.strip():
            return WorkRead(
                key_finding=finding_of(WorkerResult(), error=done.error, confidence=None)
            )
        result = WorkerResult(result=text) if done.manages else read_worker(text)
        tools = ToolUse(calls=done.tool_calls, successes=done.tool_successes)
        confidence = (
            confidence_of(result, tools, text) if done.confidence is None else done.confidence
        )
        shown = result_text(result)
        unfit = await self._misfits(done, result)
        question = None
        if done.envelope is not None and done.acceptance and shown.strip():
            asked = critic_prompt(done.envelope, done.acceptance, shown)
            question = await self._blobs.put_text(asked)
        wanted = wanted_tools(result)
        skills = [await self._blobs.put_text(skill.markdown) for skill in result.skills_created]
        drafts = [await self._blobs.put(one.model_dump_json().encode()) for one in wanted.drafts]
        return WorkRead(
            confidence=confidence,
            stated=result.confidence if done.confidence is None else done.confidence,
            doubtful=done.confidence is None and not done.manages and is_doubtful(result),
            key_finding=finding_of(result, error=done.error, confidence=confidence),
            usable=is_usable_result(result),
            findings=findings_kept(result),
            artifacts=result.artifacts[:NAMES_KEPT],
            defects=result.defects[:NAMES_KEPT],
            tools_created=result.tools_created[:NAMES_KEPT],
            skills=tuple(ref.hash for ref in skills[:NAMES_KEPT]),
            drafts=tuple(drafts),
            result=(await self._blobs.put_text(shown)).hash if shown.strip() else None,
            question=question,
            unfit=unfit,
            unread=result.unread,
            unread_tools=wanted.problems,
        )

    async def _misfits(self, done: WorkDone, result: WorkerResult) -> tuple[str, ...]:
        schema = done.envelope.result_schema if done.envelope is not None else None
        if schema is None or result.result is None:
            return ()
        return await self._inspector.misfits(as_text(result.result), schema)


class ReviewWork:
    """Asks a critic in a context of its own. An unreadable reply gives no score."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def review_work(self, step: ReviewRequest) -> ReviewReport:
        """Ask for a review and validate it."""
        return await (self._criteria(step) if step.criteria else self._critique(step))

    async def _critique(self, step: ReviewRequest) -> ReviewReport:
        answered = await self._structured.ask(
            step.call, schema=critique_schema(), read=read_critique, system=CRITIC_SYSTEM
        )
        return ReviewReport(call=answered.call, critique=answered.value, problems=answered.problems)

    async def _criteria(self, step: ReviewRequest) -> ReviewReport:
        answered = await self._structured.ask(
            step.call,
            schema=criteria_schema(),
            read=partial(read_criteria, criteria=step.criteria),
            system=CRITERIA_SYSTEM,
        )
        return ReviewReport(call=answered.call, unmet=answered.value, problems=answered.problems)


PATHS_NAMED = 40


class MergeWork:
    """Merges a worker's files into the working copy; a repeat finds everything merged."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    @activity.defn
    @translated
    async def merge_work(self, step: MergeRequest) -> MergeReport:
        """Merge path by path; if both sides changed the same lines, the run's own stay."""
        watch = Stopwatch()
        merged = await self._workspaces.merge(
            run=step.run, root=step.root, base=step.base, tree=step.tree
        )
        # Skills first, because the list is cut and its reader looks for new skills.
        changed = sorted(merged.changed, key=lambda path: not is_skill_file(path))
        return MergeReport(
            changed=tuple(changed[:PATHS_NAMED]),
            conflicts=merged.conflicts[:PATHS_NAMED],
            tree=merged.tree,
            seconds=watch.seconds,
        )
