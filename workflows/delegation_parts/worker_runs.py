"""The work of one iteration of a manager: brief the workers, run them, read, merge and review."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from temporalio import workflow

from perdure.activities.manager import Brief
from perdure.activities.worker_results import MergeWork, ReadWork
from perdure.domain.budget import envelope as budgets
from perdure.domain.delegation.complexity import Promotions, promotions
from perdure.domain.delegation.decisions import ANSWER_BELOW, ASKED_ABOVE, Envelope
from perdure.domain.delegation.key_findings import shortened
from perdure.domain.delegation.messages import (
    Assignment,
    BriefRequest,
    MergeReport,
    MergeRequest,
    ReadWorkReport,
    ReadWorkRequest,
    ReviewReport,
    WorkDone,
    WorkRead,
)
from perdure.domain.delegation.prompts import REVIEWED_TOO
from perdure.domain.delegation.repeat_detection import logical_worker
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.stall import compared_with
from perdure.domain.delegation.worker_review import (
    Critique,
    keeps_repair,
    repair_text,
    wants_critique,
    wants_repair,
)
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.child_runs import fractions
from perdure.domain.run.result import RunResult
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import demands, in_force
from perdure.workflows.delegation_parts.worker_skills import WorkerSkills
from perdure.workflows.delegation_parts.worker_tools import WorkerTools
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.child_runs import ChildOutcome, NotStarted
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.structured_replies import WorkReviewing

REVIEW_TOKENS = 1_024
ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One piece of work with how it ended; `critique` is the reviewer's opinion of it."""

    envelope: Envelope
    acceptance: str
    end: ChildOutcome | NotStarted
    read: WorkRead
    tree: str | None = None
    critique: Critique | None = None


class WorkerRuns(WorkerSkills, WorkerTools):
    """Adds workers and sub-managers to a manager's loop."""

    async def work(self, envelopes: Sequence[Envelope]) -> list[WorkerReport]:
        """Run the workers, take over what they made, have it reviewed and repaired."""
        promoted = promotions(envelopes, self.core.course.plan, allowed=self._free_places())
        self.core.course = self.core.course.told(*promoted.notes)
        base = await self._files_so_far()
        pieces = await self._run_pieces(envelopes, promoted, trees=[base] * len(envelopes))
        pieces = await self._reviewed_pieces(pieces)
        await self._merge_pieces(pieces, base)
        await self._keep_skills(pieces)
        for piece in pieces:
            self._note_unread(piece)
            self.want_tools(logical_worker(piece.envelope.worker), piece.read.drafts)
        return [self._report_of(piece) for piece in pieces]

    def _note_unread(self, piece: WorkItem) -> None:
        """Tell the manager what nobody could read, and people which tools were no drafts."""
        worker = piece.envelope.worker
        for text in piece.read.unread:
            self.inform(f"{worker}: {text}")
        for why in piece.read.unread_tools:
            self.record_event(
                "tool_refused", worker=worker, tool="a tool", stage="draft", why=why[:200]
            )

    async def _run_pieces(
        self,
        envelopes: Sequence[Envelope],
        promoted: Promotions,
        *,
        trees: Sequence[str | None],
        repairs: Sequence[tuple[str, str | None]] = (),
    ) -> list[WorkItem]:
        """Each worker begins with its tree; with `repairs` it makes another version of a result."""
        given = [self._assignment(envelope) for envelope in envelopes]
        for place, (text, before) in enumerate(repairs):
            given[place] = given[place].model_copy(update={"repair": text, "previous": before})
        briefings = await workflow.execute_activity_method(
            Brief.brief,
            BriefRequest(goal=self.spec.goal, assignments=tuple(given), said=self._demanded()),
            **activity_options.store_step(self.site, summary=f"brief {len(given)} workers"),
        )
        shares = fractions([envelope.budget_share for envelope in envelopes])
        managed = len(promoted.places)
        below = max(0, self.sub_managers_left - managed) // managed if managed else 0
        orders = [
            self._order_of(
                one,
                briefing=briefing,
                share=share,
                tree=trees[place],
                sub_managers=below if place in promoted.places else None,
            )
            for place, (one, briefing, share) in enumerate(
                zip(given, briefings.briefings, shares, strict=True)
            )
        ]
        ends = await self.run_children(orders, parallel=self.spec.delegation.parallel)
        return await self._read_pieces(given, ends, trees)

    async def _read_pieces(
        self,
        given: Sequence[Assignment],
        ends: Sequence[ChildOutcome | NotStarted],
        trees: Sequence[str | None],
    ) -> list[WorkItem]:
        """Have the outputs read where they are; here come only the facts."""
        critique = self.spec.delegation.critique
        report = await self._read_work(
            [
                _done(
                    one.envelope,
                    end,
                    acceptance=one.acceptance if wants_critique(one.acceptance, critique) else "",
                )
                for one, end in zip(given, ends, strict=True)
            ]
        )
        for end in ends:
            self._flow_back(end)
        return [
            WorkItem(one.envelope, one.acceptance, end, read, _tree_of(end) or tree)
            for one, end, read, tree in zip(given, ends, report.work, trees, strict=True)
        ]

    async def _read_work(self, work: Sequence[WorkDone]) -> ReadWorkReport:
        """Read outputs, and take what they come to together for that of the iteration."""
        settings = self.spec.delegation
        before = compared_with(self.core.course.progress, settings.stall)
        activity_id = self.next_activity_id()
        handle = workflow.start_activity_method(
            ReadWork.read_work,
            ReadWorkRequest(
                work=tuple(work),
                before=before.output if before is not None else None,
            ),
            **activity_options.store_step(
                self.site, activity_id=activity_id, summary=f"read {len(work)} results"
            ),
        )
        report = await handle
        turnover = self.core.turnover
        turnover.output, turnover.similarity = report.output, report.similarity
        turnover.results = report.results
        return report

    async def _keep_skills(self, pieces: Sequence[WorkItem]) -> None:
        """What workers wrote down, and what managers below had written down."""
        ends = [piece.end for piece in pieces]
        results = [end.result for end in ends if isinstance(end, ChildOutcome)]
        await self.take_over_skills([n for one in results if one for n in one.skills])
        await self.save_skills([text for piece in pieces for text in piece.read.skills])

    def _flow_back(self, end: ChildOutcome | NotStarted) -> None:
        """What flows back from a child however it ended, beside its result."""
        result = end.result if isinstance(end, ChildOutcome) else None
        if result is None:
            return
        core = self.core
        if result.reason == ASKED_ABOVE:
            self.inform(f"{end.order.name} asks you: {result.explanation} {ANSWER_BELOW}")
        used = dict(core.tools_used)
        for name, count in result.tools_used.items():
            used[name] = used.get(name, 0) + count
        core.tools_used = used
        core.tools_created = list(dict.fromkeys((*core.tools_created, *result.tools_created)))
        core.toolbox = core.toolbox.joined(result.made_tools, worker=end.order.name)
        core.models_used = list(dict.fromkeys((*core.models_used, *result.models_used)))

    async def _merge_pieces(self, pieces: Sequence[WorkItem], base: str | None) -> None:
        """Take over the files of those that wrote, in order; what does not fit is told."""
        if base is None:
            return
        for piece in pieces:
            tree = piece.tree
            if tree is None or tree == base:
                continue
            worker = piece.envelope.worker
            merged = await self._merged(
                MergeRequest(run=self.run_id, root=self.core.root, base=base, tree=tree), worker
            )
            if isinstance(merged, StepFailed):
                self.inform(f"The files of {worker} were not taken over: {merged.message}")
                continue
            report = merged.report
            self.apply_budget(budgets.work(self.core.budget, report.seconds))
            if report.tree is not None:
                self.core.tree = report.tree.hash
            if report.conflicts:
                paths = ", ".join(report.conflicts)
                self.inform(f"{worker} changed the same lines as others; not taken over: {paths}")

    async def _merged(
        self, request: MergeRequest, worker: str
    ) -> Completed[MergeReport] | StepFailed:
        summary = f"merge the files of {worker}"
        return await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                MergeWork.merge_work,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )

    async def _reviewed_pieces(self, pieces: Sequence[WorkItem]) -> list[WorkItem]:
        """Critique what has an acceptance; critical defects go back to the worker."""
        current = list(await asyncio.gather(*(self._critique_piece(piece) for piece in pieces)))
        settings = self.spec.delegation.critique
        for repairs in range(settings.repairs):
            places = [
                place
                for place, piece in enumerate(current)
                if piece.critique is not None
                and wants_repair(piece.critique, repairs=repairs, settings=settings)
            ]
            if not places or self._ending() is not None:
                break
            before = list(current)
            for place, repaired in zip(
                places, await self._repair_pieces([current[place] for place in places]), strict=True
            ):
                current[place] = repaired
            if any(one is other for one, other in zip(before, current, strict=True)):
                # What was read last are the repairs alone, also those that were discarded.
                await self._read_work([_done(one.envelope, one.end) for one in current])
        for piece in current:
            if piece.critique is not None:
                key = piece.envelope.subtask or logical_worker(piece.envelope.worker)
                reviews = self.core.course.reviews.after(key, piece.critique)
                self.core.course = self.core.course.model_copy(update={"reviews": reviews})
        return current

    async def _repair_pieces(self, pieces: Sequence[WorkItem]) -> list[WorkItem]:
        """Another version of each result; a worse one is discarded."""
        told = [
            (repair_text(piece.critique), piece.read.result)
            for piece in pieces
            if piece.critique is not None
        ]
        envelopes = [
            piece.envelope.model_copy(
                update={"worker": f"{piece.envelope.worker}_repair", "budget_share": None}
            )
            for piece in pieces
        ]
        trees = [piece.tree for piece in pieces]
        again = await self._run_pieces(
            envelopes, Promotions(frozenset()), trees=trees, repairs=told
        )
        again = list(await asyncio.gather(*(self._critique_piece(piece) for piece in again)))
        return [
            replace(after, envelope=before.envelope) if _better(before, after) else before
            for before, after in zip(pieces, again, strict=True)
        ]

    async def _critique_piece(self, piece: WorkItem) -> WorkItem:
        """Ask the reviewer; one that fails gives no score, and holds up nothing."""
        question = piece.read.question
        if question is None or self._ending() is not None:
            return piece
        review = await self.ask_review(question, what=piece.envelope.worker)
        if review is None or review.critique is None:
            return piece
        return replace(piece, critique=review.critique)

    async def ask_review(
        self, question: BlobRef, *, what: str, criteria: tuple[str, ...] = ()
    ) -> ReviewReport | None:
        def asked(problems: tuple[str, ...]) -> ModelCallSpec:
            entries = [SayEntry(type="say", ref=question.hash, tokens=question.tokens.total)]
            if said := self._demanded():
                text = f"{demands(said)}\n{REVIEWED_TOO}"
                entries.append(SayEntry(type="say", text=text))
            if problems:
                entries.append(SayEntry(type="say", text=f"Again, please: {'; '.join(problems)}"))
            return ModelCallSpec(
                role="critic",
                phase="evaluating",
                summary=f"review of {what} (iteration {self.iteration})",
                entries=entries,
                max_tokens=self.reply_tokens("critic", REVIEW_TOKENS),
                tools_off=True,
                structured=WorkReviewing(criteria=criteria),
                worker=what,
            )

        called = await self.call_structured(asked)
        if isinstance(called, ReviewReport) and not called.problems:
            return called
        self.inform(f"{what} could not be reviewed.")
        return None

    def _demanded(self) -> tuple[str, ...]:
        """What people said since the task was given."""
        return tuple(in_force(self.core.control.standing))

    def _report_of(self, piece: WorkItem) -> WorkerReport:
        """What the manager's rules look at."""
        envelope, end, read = piece.envelope, piece.end, piece.read
        crashed = isinstance(end, NotStarted) or (
            end.result is None or (end.result.outcome == "failed" and not read.usable)
        )
        error = _error_of(end)
        if read.unfit:
            error = f"the result does not fit its schema: {'; '.join(read.unfit)}"
        return WorkerReport(
            worker=envelope.worker,
            subtask=envelope.subtask,
            end="crashed" if crashed else "done",
            confidence=None if crashed else read.confidence,
            stated=None if crashed else read.stated,
            key_finding=read.key_finding if not crashed else "",
            error=shortened(error, ERROR_CHARACTERS),
            output=read.result,
            critique=piece.critique.score if piece.critique else None,
            usable=read.usable and not crashed and not read.unfit,
            artifacts=read.artifacts,
            run=end.run if isinstance(end, ChildOutcome) else None,
        )


def _done(envelope: Envelope, end: ChildOutcome | NotStarted, *, acceptance: str = "") -> WorkDone:
    result = end.result if isinstance(end, ChildOutcome) else None
    manages = result is not None and result.kind == "delegation"
    return WorkDone(
        worker=envelope.worker,
        output=result.output_ref if result is not None else None,
        tool_calls=result.spend.tool_calls if result is not None else 0,
        tool_successes=result.tool_successes if result is not None else 0,
        confidence=_sureness(result) if result is not None and manages else None,
        manages=manages,
        error=_error_of(end),
        envelope=envelope.model_copy(update={"inputs": {}}),
        acceptance=acceptance,
    )


def _sureness(result: RunResult) -> float | None:
    """How sure a manager below is of its work; one that gave up has not done it."""
    if result.reason == "gave_up":
        return 0.0
    if result.confidence is not None:
        return result.confidence
    return result.best.score if result.best is not None else None


def _error_of(end: ChildOutcome | NotStarted) -> str:
    if isinstance(end, NotStarted):
        return end.why
    if end.result is None:
        return end.error
    if end.result.outcome == "accepted":
        return ""
    return shortened(end.result.explanation, ERROR_CHARACTERS)


def _tree_of(end: ChildOutcome | NotStarted) -> str | None:
    result = end.result if isinstance(end, ChildOutcome) else None
    found = (item.ref for item in (result.artifacts if result else ()) if item.kind == "tree")
    return next(found, None)


def _better(before: WorkItem, after: WorkItem) -> bool:
    if before.critique is None or after.critique is None:
        return after.critique is not None
    return keeps_repair(before.critique, after.critique)
