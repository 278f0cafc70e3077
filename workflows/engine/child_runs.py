"""Child runs: started with a share of the parent's budget, watched, and settled exactly once.

The parent starts children in batches and waits for them. It never continues as new while one is
open, because that would end it. It passes on what people say. Each reservation becomes spend.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ParentClosePolicy

from perdure.activities.take_over import SettleChild
from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import BudgetLimits, LimitReached
from perdure.domain.foundation.names import WORKFLOW_TYPES, LoopKind
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.run import child_runs as rules
from perdure.domain.run.activity_messages import SettleChildRequest
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.cost_report import charge_child
from perdure.domain.run.messages import AddInput, Amend, AnyMessage, Pause, Resume, Stop
from perdure.domain.run.result import RunResult, SpendReport
from perdure.domain.run.spec import LoopInput, Placement
from perdure.domain.turns.guidance import Said
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.other_workflows import Handle, cancel, send

GOAL_CHARACTERS = 400
SUMMARY_CHARACTERS = 150
# What each level of a tree needs to store its own end after the level below it ended.
FINISH_S = 3.0
BY_PARENT = "the run above it"
# A patch: older histories cancel by handle.
CANCELLED_BY_ID = "children are cancelled by id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A child run to start.

    Args:
        name: who works, for people and for the child's id.
        kind: which loop.
        goal: what it is told, for lists.
        make: its input, given its id, its site and its limits.
        spawns: it may have children of its own.
        fraction: its share of what remains; None takes the default, 0 is refused.
        writable: its tools change files, so that it gets a working copy of its own.
        role: the role whose models play it.
        tree: the snapshot that its working copy begins with.
    """

    name: str
    kind: LoopKind
    goal: str
    make: Callable[[str, Placement, BudgetLimits], LoopInput]
    spawns: bool = False
    fraction: float | None = None
    writable: bool = False
    role: str = "executor"
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How a child ended, and what it used; without a result `error` says why there is none."""

    order: ChildSpec
    run: str
    result: RunResult | None
    spend: SpendReport
    error: str = ""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A child for which there was no budget, or no time left to begin.

    `spent` is the limit that more of it would lift.
    """

    order: ChildSpec
    why: str
    spent: LimitReached | None = None


@dataclass(slots=True)
class _Running:
    """A child at work."""

    order: ChildSpec
    run: str
    handle: Handle
    end: ChildOutcome | None = None


_Reserved = tuple[ChildSpec, str, LoopInput]


class ChildRuns:
    """Starts child runs, and settles each of them once."""

    def __init__(self, engine: Engine) -> None:
        self.run = engine.run
        self.steps = engine.steps
        self.limits = engine.limits

    async def run_children(
        self, orders: Sequence[ChildSpec], *, parallel: int = rules.WAVE
    ) -> list[ChildOutcome | NotStarted]:
        """Start the children, at most `parallel` at once, and wait for all. Keeps the order."""
        ended: list[ChildOutcome | NotStarted] = []
        for first in range(0, len(orders), parallel):
            wave = orders[first : first + parallel]
            if await self.steps.wait_while_paused() or self.run.ending() is not None:
                ended += [NotStarted(order, "the run was to end") for order in wave]
                continue
            ended += await self._child_wave(wave)
        return ended

    async def _child_wave(self, orders: Sequence[ChildSpec]) -> list[ChildOutcome | NotStarted]:
        self.run.set_phase("working")
        ordered = self._heard_now()
        begun = [self._reserve_child(order, siblings=len(orders)) for order in orders]
        started = await asyncio.gather(*(self._begin_child(one) for one in begun))
        running = [one for one in started if isinstance(one, _Running)]
        self.run.set_step(f"{len(running)} child runs")
        await self._watch_children(running, ordered)
        self.run.set_step(None)
        ended = [_end_of(one) for one in started]
        longest = max(
            (one.spend.active_time_s for one in ended if isinstance(one, ChildOutcome)), default=0.0
        )
        self.run.apply_budget(budgets.add_active_time(self.run.state.budget, longest))
        return ended

    def _reserve_child(self, order: ChildSpec, *, siblings: int) -> _Reserved | NotStarted:
        state = self.run.state
        run = rules.child_id(self.run.id, state.children_started + 1, order.name)
        reserved = rules.reserve_run(
            state.budget,
            run,
            spawns=order.spawns,
            fraction=order.fraction,
            siblings=siblings,
            wall_time=self.run.wall_time,
        )
        if isinstance(reserved, LimitReached):
            # A note says that a part of the budget is meant, which is not spent: depth, or a share.
            spent = None if reserved.note else reserved
            return NotStarted(order, f"no budget: {reserved.text}", spent)
        self.limits.close_budget_question()
        state.children_started += 1
        state.budget, limits = reserved
        child = ChildStatus(
            id=run,
            name=order.name,
            kind=order.kind,
            token_limit=limits.tokens,
            cost_limit_usd=limits.cost_usd,
        )
        state.children = rules.with_child_status(state.children, child)
        try:
            return order, run, order.make(run, self._site_of(order), limits)
        except ValidationError as error:
            # Raised here, it would only fail the same workflow task again and again.
            return self._not_started(order, run, error)

    def _not_started(self, order: ChildSpec, run: str, error: Exception) -> NotStarted:
        self.run.state.budget = budgets.release(self.run.state.budget, run)
        self._note_child_end(run, None, SpendReport(), error=str(error))
        return NotStarted(order, clipped_line(f"it could not be started: {error}", 300))

    def _site_of(self, order: ChildSpec) -> Placement:
        """A child that writes gets a copy of the parent's files; one that only reads uses them."""
        state, site = self.run.state, self.run.site
        files = (site.folder, order.tree) if order.writable else state.files_to_read(site.folder)
        return site.model_copy(
            update={
                "root": site.root or self.run.id,
                "parent": self.run.id,
                "folder": files[0],
                "tree": files[1],
                "writable": order.writable,
                "role": order.role,
                "worker": order.name,
                # A worker is told in its briefing, as it has no loop that would tell it again.
                "said": () if order.kind == "agent" else tuple(state.control.standing),
            }
        )

    async def _begin_child(self, begun: _Reserved | NotStarted) -> _Running | NotStarted:
        if isinstance(begun, NotStarted):
            return begun
        order, run, given = begun
        try:
            # By name, not by class: the loops import this module, and importing them here would be
            # a cycle.
            handle: Handle = await workflow.start_child_workflow(
                WORKFLOW_TYPES[order.kind],
                given,
                id=run,
                task_queue=self.run.site.loops,
                result_type=RunResult,
                # When this run is gone its children hear of it, end with what they have, and close
                # their books; terminated ones could not.
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                static_summary=f"{order.name}: {' '.join(order.goal.split())}"[:SUMMARY_CHARACTERS],
                memo={
                    "goal": " ".join(order.goal.split())[:GOAL_CHARACTERS],
                    "parent": self.run.id,
                },
            )
        except (WorkflowAlreadyStartedError, FailureError) as error:
            return self._not_started(order, run, error)
        self.run.record_event("child_started", child=run, name=order.name, kind=order.kind)
        return _Running(order, run, handle)

    async def _watch_children(self, running: Sequence[_Running], ordered: rules.Heard) -> None:
        """Wait for all; pass on what people ask of this run meanwhile.

        `ordered` is what people had said when the children were ordered.
        """
        told = rules.Heard(said=ordered.said, holds=ordered.holds)
        deadline: datetime | None = None
        while open_ones := [one for one in running if one.end is None]:
            if self.run.interruption is not None:
                await self._cancel_children(open_ones)
                return
            now = self._heard_now()
            if now != told:
                await self._pass_on(open_ones, told, now)
                if now.stop:
                    deadline = workflow.now() + timedelta(seconds=self.run.site.timing.child_grace)
                told = now
            left = None if deadline is None else (deadline - workflow.now()).total_seconds()
            if not await self._next_child(open_ones, told, timeout=left):
                # The grace of a polite stop is over.
                self.run.state.control.stop = "now"
                continue
            for one in open_ones:
                if one.handle.done():
                    await self._settle_child(one)

    async def _next_child(
        self, open_ones: Sequence[_Running], told: rules.Heard, *, timeout: float | None
    ) -> bool:
        """Wait until a child ended or people said something; False when the time is up first."""
        heard = asyncio.create_task(
            workflow.wait_condition(
                lambda: self.run.interruption is not None or self._heard_now() != told
            )
        )
        done, _ = await workflow.wait(
            [heard, *(one.handle for one in open_ones)],
            timeout=None if timeout is None else max(0.01, timeout),
            return_when=asyncio.FIRST_COMPLETED,
        )
        heard.cancel()
        return bool(done)

    async def _pass_on(
        self, open_ones: Sequence[_Running], told: rules.Heard, now: rules.Heard
    ) -> None:
        await self._pass_on_said(open_ones, after=told.said)
        await self._pass_on_taken_back(open_ones, told.holds)
        message: AnyMessage | None = None
        if now.stop and not told.stop:
            message, verb = Stop(by=BY_PARENT), "stop"
        elif now.paused != told.paused:
            message = Pause(by=BY_PARENT) if now.paused else Resume(by=BY_PARENT)
            verb = "pause" if now.paused else "resume"
        else:
            return
        self.run.sync_visibility()
        await asyncio.gather(*(send(one.handle, verb, message) for one in open_ones))

    def _heard_now(self) -> rules.Heard:
        control = self.run.state.control
        stop, holds = control.stop is not None, tuple(control.standing)
        return rules.Heard(control.paused, stop, control.said_count, holds)

    async def _pass_on_said(self, open_ones: Sequence[_Running], *, after: int) -> None:
        """Pass on what people said to child loops; an agent has no later prompt to put it in."""
        loops = [one for one in open_ones if one.order.kind != "agent"]
        for said in self.run.state.control.standing:
            if said.number > after:
                added = AddInput(text=said.text, by=said.by)
                await asyncio.gather(*(send(one.handle, "add_input", added) for one in loops))

    async def _pass_on_taken_back(
        self, open_ones: Sequence[_Running], held: Sequence[Said]
    ) -> None:
        """Withdraw below, by its words, what was withdrawn here: child runs number it anew."""
        holds = {said.number for said in self.run.state.control.standing}
        gone = tuple(said.text for said in held if said.number not in holds)
        if not gone:
            return
        amend = Amend(remove_texts=gone, by=BY_PARENT)
        loops = [one for one in open_ones if one.order.kind != "agent"]
        await asyncio.gather(*(send(one.handle, "amend", amend) for one in loops))

    async def _cancel_children(self, open_ones: Sequence[_Running]) -> None:
        """Cancel the children and give them a limited time to report."""
        by_id = workflow.patched(CANCELLED_BY_ID)
        for one in open_ones:
            # A handle reaches only the execution that was started, and a child that continued as
            # new would spend on.
            await cancel(one.run) if by_id else one.handle.cancel()
        timing, levels = self.run.site.timing, self.run.state.budget.limits.depth + 1
        patience = timing.heartbeat + timing.stop_grace + FINISH_S * levels
        await workflow.wait([one.handle for one in open_ones], timeout=patience)
        for one in open_ones:
            await self._settle_child(one)

    async def _settle_child(self, one: _Running) -> None:
        """Replace the reservation by what was used: from its result, else from the journal."""
        result, error = await _read(one.handle)
        if result is None:
            spend = (
                await workflow.execute_activity_method(
                    SettleChild.settle_child,
                    SettleChildRequest(
                        child=one.run,
                        root=self.run.site.root or self.run.id,
                        count_cache_reads=self.run.state.budget.limits.count_cache_reads,
                    ),
                    **activity_options.store_step(self.run.site, summary=f"settle {one.run}"),
                )
            ).spend
        else:
            spend = result.spend
        spawned = one.order.kind == "delegation"
        charge_child(self.run.state, one.run, spend)
        self.run.apply_budget(
            rules.settle_run(self.run.state.budget, one.run, spend, spawned=spawned)
        )
        self._note_child_end(one.run, result, spend, error=error)
        one.end = ChildOutcome(one.order, one.run, result, spend, error)

    def _note_child_end(
        self, run: str, result: RunResult | None, spend: SpendReport, *, error: str
    ) -> None:
        known = next(child for child in self.run.state.children if child.id == run)
        ended = known.model_copy(
            update={
                "state": "ended",
                "outcome": result.outcome if result else "failed",
                "reason": result.reason if result else clipped_line(error, 200),
                "tokens": spend.tokens,
                "cost_usd": spend.cost_usd,
            }
        )
        self.run.state.children = rules.with_child_status(self.run.state.children, ended)
        self.run.state.below = {
            child: asked for child, asked in self.run.state.below.items() if child != run
        }
        self.run.record_event(
            "child_finished",
            child=run,
            name=known.name,
            outcome=ended.outcome,
            reason=ended.reason,
            tokens=spend.tokens,
            cost_usd=None if spend.cost_usd is None else str(spend.cost_usd),
        )


def _end_of(started: _Running | NotStarted) -> ChildOutcome | NotStarted:
    if not isinstance(started, _Running):
        return started
    if started.end is None:
        raise ApplicationError(f"{started.run} was not settled", type="internal")
    return started.end


async def _read(handle: Handle) -> tuple[RunResult | None, str]:
    """The result of a child that ended; else in words why there is none."""
    if not handle.done():
        return None, "it did not end when it was told to"
    try:
        return await handle, ""
    except ChildWorkflowError as error:
        said = f"{type(error.cause).__name__}: {error.cause}" if error.cause else str(error)
        return None, clipped_line(said, 300)
    except asyncio.CancelledError:
        return None, "it was cancelled before it began"
