"""One iteration's work: brief the workers, run them, read, review and merge their results."""

from collections.abc import Sequence
from dataclasses import replace

from temporalio import workflow

from perdure.activities.manager import Brief
from perdure.activities.worker_results import MergeWork, ReadWork
from perdure.domain.budget import accounting as budgets
from perdure.domain.delegation.decisions import (
    ANSWER_BELOW,
    ASKED_ABOVE,
    Envelope,
    further_try,
)
from perdure.domain.delegation.messages import (
    Assignment,
    BriefRequest,
    MergeReport,
    MergeRequest,
    ReadWorkReport,
    ReadWorkRequest,
    WorkDone,
)
from perdure.domain.delegation.repeated_work import logical_worker
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.skills import is_skill_file
from perdure.domain.delegation.stall import compared_with
from perdure.domain.delegation.worker_review import repair_text, wants_critique, wants_repair
from perdure.domain.delegation.worker_specs import Promotions, promotions
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.generated_tools.tool_registry import tools_made
from perdure.domain.run.child_runs import fractions
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.delegation_parts.tool_factory import WHY_CHARACTERS, ToolFactory
from perdure.workflows.delegation_parts.work_items import (
    WorkItem,
    in_place_of,
    is_better,
    lacks_its_tool,
    report_of,
    skills_of,
    tree_of,
    went_on,
    work_done,
)
from perdure.workflows.delegation_parts.work_reviews import WorkReviews
from perdure.workflows.delegation_parts.worker_inputs import WorkerInputs
from perdure.workflows.delegation_parts.worker_skills import WorkerSkills
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.child_runs import ChildOutcome, ChildRuns, NotStarted
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import Completed, StepFailed


class WorkerRuns:
    """Runs the workers and sub-managers of one iteration."""

    def __init__(
        self,
        run: DelegationRun,
        engine: Engine,
        *,
        skills: WorkerSkills,
        tools: ToolFactory,
        reviews: WorkReviews,
    ) -> None:
        self.run = run
        self.retries = engine.retries
        self.beside = engine.models.beside
        self.children = ChildRuns(engine)
        self.orders = WorkerInputs(run, engine)
        self.skills = skills
        self.tools = tools
        self.reviews = reviews

    async def work(self, envelopes: Sequence[Envelope]) -> list[WorkerReport]:
        """Run the workers, have their results reviewed and repaired, and merge their files."""
        promoted = promotions(
            envelopes, self.run.state.course.plan, allowed=self.orders.free_places()
        )
        self.run.state.course = self.run.state.course.with_notes(*promoted.notes)
        # Before the files are stored for the workers: these find the skills among them as well.
        envelopes = await self.skills.keep_given(envelopes)
        # One tree for all workers of the iteration: it is the base of the three-way merges below.
        base = await self.orders.take_base_snapshot()
        pieces = await self._run_pieces(envelopes, promoted, trees=[base] * len(envelopes))
        pieces = await self._make_their_tools(pieces)
        pieces = await self._reviewed_pieces(pieces)
        # After the reviews, since a repair may have replaced a worker's files.
        await self._merge_pieces(pieces, base)
        await self._keep_skills(pieces)
        for piece in pieces:
            self._note_unread(piece)
            self.tools.want_tools(logical_worker(piece.envelope.worker), piece.read.drafts)
        return [report_of(piece) for piece in pieces]

    async def _make_their_tools(self, pieces: list[WorkItem]) -> list[WorkItem]:
        """Make the tools that workers asked for, and have those go on that lacked them.

        Tools that a person approves wait until after the iteration, when the run may continue as
        new.
        """
        if self.tools.settings.approve or not self.tools.settings.enabled:
            return pieces
        lacking: dict[int, str] = {}
        for place, piece in enumerate(pieces):
            known = self.run.state.toolbox.tools
            ending = await self.tools.make_tools(
                logical_worker(piece.envelope.worker), piece.read.drafts
            )
            if ending is not None:
                return pieces
            tools = self.run.state.toolbox.tools
            made = {name: one for name, one in tools.items() if known.get(name) != one}
            if made and lacks_its_tool(piece.read):
                lacking[place] = tools_made(made)
        if not lacking or self.run.ending() is not None:
            return pieces
        again = await self._again(
            [(pieces[place], text) for place, text in lacking.items()], suffix="_retry1"
        )
        current = list(pieces)
        for place, after in zip(lacking, again, strict=True):
            current[place] = went_on(pieces[place], after)
        # Only the work of those that went on was read just now: read that of all again.
        await self._read_work([work_done(one.envelope, one.end) for one in current])
        return current

    async def _again(
        self, pieces: Sequence[tuple[WorkItem, str]], *, suffix: str
    ) -> list[WorkItem]:
        """Have work done once more, each from its result and files, as its text says."""
        envelopes = [
            piece.envelope.model_copy(
                update={
                    "worker": further_try(piece.envelope.worker, suffix),
                    "budget_share": None,
                }
            )
            for piece, _ in pieces
        ]
        return await self._run_pieces(
            envelopes,
            Promotions(frozenset()),
            trees=[piece.tree for piece, _ in pieces],
            repairs=[(text, piece.read.result) for piece, text in pieces],
        )

    def _note_unread(self, piece: WorkItem) -> None:
        """Report unreadable parts of a result, and tool drafts that were none."""
        worker = piece.envelope.worker
        for text in piece.read.unread:
            self.run.inform(f"{worker}: {text}")
        for why in piece.read.unread_tools:
            self.run.record_event(
                "tool_refused",
                worker=worker,
                tool="a tool",
                stage="draft",
                why=clipped_line(why, WHY_CHARACTERS),
            )

    async def _run_pieces(
        self,
        envelopes: Sequence[Envelope],
        promoted: Promotions,
        *,
        trees: Sequence[str | None],
        repairs: Sequence[tuple[str, str | None]] = (),
    ) -> list[WorkItem]:
        """Run workers, each from its tree; `repairs` ask for another version of a result."""
        given = [self.orders.assignment(envelope) for envelope in envelopes]
        for place, (text, before) in enumerate(repairs):
            given[place] = given[place].model_copy(update={"repair": text, "previous": before})
        # Built where the content is, and handed on by reference: inherited inputs never pass
        # through history.
        briefings = await workflow.execute_activity_method(
            Brief.brief,
            BriefRequest(
                goal=self.run.spec.goal, assignments=tuple(given), said=self.reviews.demanded()
            ),
            **activity_options.store_step(self.run.site, summary=f"brief {len(given)} workers"),
        )
        shares = fractions([envelope.budget_share for envelope in envelopes])
        managed = len(promoted.places)
        below = max(0, self.run.sub_managers_left - managed) // managed if managed else 0
        orders = [
            self.orders.order_of(
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
        ends = await self.children.run_children(orders, parallel=self.run.spec.delegation.parallel)
        return await self._read_pieces(given, ends, trees)

    async def _read_pieces(
        self,
        given: Sequence[Assignment],
        ends: Sequence[ChildOutcome | NotStarted],
        trees: Sequence[str | None],
    ) -> list[WorkItem]:
        """Have the outputs read by an activity; only facts come back to the workflow."""
        critique = self.run.spec.delegation.critique
        report = await self._read_work(
            [
                work_done(
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
            WorkItem(
                one.envelope,
                one.acceptance,
                end,
                read,
                tree_of(end) or tree,
                below=skills_of(end),
            )
            for one, end, read, tree in zip(given, ends, report.work, trees, strict=True)
        ]

    async def _read_work(self, work: Sequence[WorkDone]) -> ReadWorkReport:
        """Read outputs; together they are the output of the iteration."""
        settings = self.run.spec.delegation
        before = compared_with(self.run.state.course.progress, settings.stall)
        activity_id = self.run.next_activity_id()
        handle = workflow.start_activity_method(
            ReadWork.read_work,
            ReadWorkRequest(work=tuple(work), before=before.output if before is not None else None),
            **activity_options.store_step(
                self.run.site, activity_id=activity_id, summary=f"read {len(work)} results"
            ),
        )
        report = await handle
        turnover = self.run.state.turnover
        turnover.output, turnover.similarity = report.output, report.similarity
        turnover.results = report.results
        return report

    async def _keep_skills(self, pieces: Sequence[WorkItem]) -> None:
        """Save the skills that workers wrote, and take over those of managers below."""
        await self.skills.take_over_skills([name for piece in pieces for name in piece.below])
        await self.skills.save_skills([text for piece in pieces for text in piece.read.skills])

    def _flow_back(self, end: ChildOutcome | NotStarted) -> None:
        """Take over what a child leaves besides its result: questions, tools, models used."""
        result = end.result if isinstance(end, ChildOutcome) else None
        if result is None:
            return
        state = self.run.state
        if result.reason == ASKED_ABOVE:
            self.run.inform(f"{end.order.name} asks you: {result.explanation} {ANSWER_BELOW}")
        used = dict(state.tools_used)
        for name, count in result.tools_used.items():
            used[name] = used.get(name, 0) + count
        state.tools_used = used
        state.tools_created = list(dict.fromkeys((*state.tools_created, *result.tools_created)))
        state.toolbox = state.toolbox.with_tools_below(
            result.made_tools, result.tool_metrics, worker=end.order.name
        )
        state.models_used = list(dict.fromkeys((*state.models_used, *result.models_used)))

    async def _merge_pieces(self, pieces: Sequence[WorkItem], base: str | None) -> None:
        """Merge the files of the workers in order; report conflicts to the manager."""
        if base is None:
            return
        touched = False
        # One after another: each merge writes into the same folder.
        for piece in pieces:
            tree = piece.tree
            # An unchanged tree needs no step.
            if tree is None or tree == base:
                continue
            worker = piece.envelope.worker
            merged = await self._merged(worker, base=base, tree=tree)
            if isinstance(merged, StepFailed):
                self.run.inform(f"The files of {worker} were not taken over: {merged.message}")
                continue
            report = merged.report
            self.run.apply_budget(budgets.add_active_time(self.run.state.budget, report.seconds))
            if report.tree is not None:
                self.run.state.tree = report.tree.hash
                self.run.note_folder_tree(report.tree.hash)
            touched = touched or any(is_skill_file(path) for path in report.changed)
            if report.conflicts:
                paths = ", ".join(report.conflicts)
                self.run.inform(
                    f"{worker} changed the same lines as others; not taken over: {paths}"
                )
        # Once, after the last merge: until then a later worker may replace a skill's file.
        if touched:
            await self.skills.read_skills()

    async def _merged(
        self, worker: str, *, base: str, tree: str
    ) -> Completed[MergeReport] | StepFailed:
        run = self.run
        return await self.retries.workspace_step(
            MergeWork.merge_work,
            # Made anew at each try, for the working folder may have moved to another host.
            lambda: MergeRequest(run=run.id, root=run.state.root, base=base, tree=tree),
            summary=f"merge the files of {worker}",
        )

    async def _reviewed_pieces(self, pieces: Sequence[WorkItem]) -> list[WorkItem]:
        """Review results that have acceptance criteria; send critical defects back."""
        current = await self._critiqued(pieces)
        settings = self.run.spec.delegation.critique
        for repairs in range(settings.repairs):
            places = [
                place
                for place, piece in enumerate(current)
                if piece.critique is not None
                and wants_repair(piece.critique, repairs=repairs, settings=settings)
            ]
            if not places or self.run.ending() is not None:
                break
            before = list(current)
            for place, repaired in zip(
                places, await self._repair_pieces([current[place] for place in places]), strict=True
            ):
                current[place] = repaired
            if any(one is other for one, other in zip(before, current, strict=True)):
                # Only the repairs were read just now, discarded ones too: read what is kept.
                await self._read_work([work_done(one.envelope, one.end) for one in current])
        for piece in current:
            if piece.critique is not None:
                key = piece.envelope.subtask or logical_worker(piece.envelope.worker)
                reviews = self.run.state.course.reviews.after(key, piece.critique)
                self.run.state.course = self.run.state.course.model_copy(
                    update={"reviews": reviews}
                )
        return current

    async def _repair_pieces(self, pieces: Sequence[WorkItem]) -> list[WorkItem]:
        """Have each result done again; keep the new version only if it is better."""
        told = [
            (piece, repair_text(piece.critique)) for piece in pieces if piece.critique is not None
        ]
        again = await self._again(told, suffix="_repair")
        again = await self._critiqued(again)
        return [
            in_place_of(before, after) if is_better(before, after) else before
            for before, after in zip(pieces, again, strict=True)
        ]

    async def _critiqued(self, pieces: Sequence[WorkItem]) -> list[WorkItem]:
        return await self.beside.all_of([self._critique_piece(piece) for piece in pieces])

    async def _critique_piece(self, piece: WorkItem) -> WorkItem:
        """Ask the reviewer about a result; without an opinion the result stays as it is."""
        question = piece.read.question
        if question is None or self.run.ending() is not None:
            return piece
        review = await self.reviews.ask(question, what=piece.envelope.worker)
        if review is None or review.critique is None:
            return piece
        return replace(piece, critique=review.critique)
