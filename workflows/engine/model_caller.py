"""One model call as the loop sees it: reserve budget, call, settle, fail over if needed.

Whatever happens to the activity, its spend is settled: from its report, from the details of its
failure, or from the journal.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from temporalio import workflow

from perdure.activities.call_model import CallModel
from perdure.activities.run_lifecycle import Reconcile
from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import CallFit, LimitReached
from perdure.domain.budget.allowances import Allowance, typical_output
from perdure.domain.foundation.names import short_model_name
from perdure.domain.foundation.retry_policies import LOST_WORKERS
from perdure.domain.foundation.tokens import calibrate
from perdure.domain.llm.requests import CUT_SHORT
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run.activity_messages import ModelCallReport, ModelCallRequest, StructuredReport
from perdure.domain.run.bookkeeping_messages import ReconcileRequest
from perdure.domain.run.cost_report import charged
from perdure.domain.run.iteration_record import Carrier, thin
from perdure.domain.turns import compaction
from perdure.domain.turns.failover import OVERFLOW_CODE, is_price_missing, left_behind, next_model
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.calls_beside import CallsBeside
from perdure.workflows.engine.fitting import Fitting
from perdure.workflows.engine.limit_questions import LimitQuestions
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.model_call_spec import ModelCallSpec as ModelCallSpec
from perdure.workflows.engine.model_call_tries import (
    AllModelsFailed,
    Called,
    ModelAttempts,
    Tried,
    Unpriced,
    named,
)
from perdure.workflows.engine.policies import ModelSelection
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import LOST, Completed, StepFailed, StepRunner

RESERVATION_TRIES = 4
REPLY_TRIES = 2
REFUSED = "refusal"
MODEL_REFUSED = "the model refused to answer"
CUT_REPLY = "it was cut off at its output limit: say it in fewer words"
# Patch: a run that was stopped while its provider was left alone asked on until its last try.
NO_RETRY_AFTER_A_STOP = "no retry after a stop"
# Patch: of two calls side by side whose model refused both, the second one skipped a model.
ONE_REFUSAL_ONE_STEP = "a model that refuses twice at once is left once"
# Patch: of two calls side by side, the slower one went back to a model that had failed the other.
NO_STEP_BACK = "a slow call takes no step back in the chain"
# Patch: a stand-in that had no price either let every call pass below a limit in money.
STAND_IN_HAS_A_PRICE = "a stand-in price is a known one"

Performed = Completed[ModelCallReport] | Completed[StructuredReport] | StepFailed


@dataclass(frozen=True)
class ModelCaller:
    """Makes the model calls of a run, within its budget."""

    run: AnyRun
    _: KW_ONLY
    steps: StepRunner
    retries: LostWorkerRetries
    limits: LimitQuestions
    selection: ModelSelection[AnyRun]
    fitting: Fitting
    beside: CallsBeside

    async def call_model(self, ask: ModelCallSpec) -> Called:
        """Call the role's models until one answers, the budget refuses, or all have failed.

        Returns:
            A report with status `replied`, a `LimitReached` or `Unpriced`, a `StepFailed` with code
            `interrupted`, or `AllModelsFailed`.
        """
        return (await self._called(ask))[0]

    async def _called(self, ask: ModelCallSpec) -> tuple[Called, str]:
        """What `call_model` returns, and the model that was asked last."""
        own, seat = ask.model, self.selection.chain_key(ask.role)
        chain = (own,) if own else self.selection.chain(ask.role)
        # Per model: each one gets the whole conversation first.
        compacted = False
        while True:
            index = 0 if own else self.run.state.chain_index.get(seat, 0)
            model = chain[min(index, len(chain) - 1)]
            tries = ModelAttempts(fallback=index + 1 < len(chain))
            called = await self._on_model(ask, model, compact=compacted, tries=tries)
            if isinstance(called, Unpriced):
                # Nothing was sent to it, and the price of the next model may be known.
                called = (
                    StepFailed("", "unpriced_model", called.model) if tries.fallback else called
                )
            if not isinstance(called, StepFailed) or called.code == "interrupted":
                return called, model
            overflow = called.code == OVERFLOW_CODE
            if overflow and not compacted:
                compacted = True
                self.run.record_event("context_pressure", model=model, cure="compacted once")
                continue
            following = next_model(chain, index, self.run.state.cards, overflow=overflow)
            if following is None:
                return AllModelsFailed(called.code, called.message), model
            # The next model gets the conversation whole: the shorter form was for this one.
            compacted = False
            self._move_on(ask.role, chain, following, failed=model, why=called.code)

    def _move_on(
        self, role: str, chain: tuple[str, ...], following: int, *, failed: str, why: str
    ) -> None:
        """Play the role with another model of its chain from now on."""
        state, seat = self.run.state, self.selection.chain_key(role)
        if state.chain_index.get(seat, 0) > following and workflow.patched(NO_STEP_BACK):
            return  # a call beside this one has moved further
        # In the state: later calls begin with the model that answered, after continue-as-new too.
        state.chain_index = {**state.chain_index, seat: following}
        self.run.record_event(
            "model_failed_over",
            failed=failed,
            to=chain[following],
            why=why,
            left_out=self.fitting.left_out(role, chain[following]) or None,
            left_behind=left_behind(state.cards.get(failed), chain[following]),
        )

    async def call_structured(
        self, asked: Callable[[tuple[str, ...]], ModelCallSpec | LimitReached]
    ) -> Called:
        """A reply with a structure, asked for once more with what was wrong with the first.

        Args:
            asked: makes the question, given the problems of the reply before it, or says that there
                is no budget for it.

        Returns:
            What `call_model` returns; a structured report still has its problems when the second
            reply was no better. One that is usable in spite of them is not lost over the second.
        """
        called: Called = AllModelsFailed("internal", "nothing was asked")
        usable: StructuredReport | None = None
        problems: tuple[str, ...] = ()
        tries, raised = REPLY_TRIES, 0
        while tries:
            ask = asked(problems)
            if isinstance(ask, LimitReached):
                return usable or ask
            # The second question is a call of its own with a reservation of its own, not a retry.
            called, model = await self._called(replace(ask, raised=raised))
            if (
                isinstance(called, LimitReached)
                and usable is None
                and await self.limits.ask_for_budget(called)
            ):
                continue
            if not isinstance(called, StructuredReport):
                return usable or called
            if called.call.stop_reason == REFUSED:
                if ask.model is None and self.move_past_refusal(ask.role, model):
                    continue
                return usable or called.model_copy(update={"problems": (MODEL_REFUSED,)})
            if not called.problems:
                return called
            usable = called if called.usable else usable
            problems, tries = called.problems, tries - 1
            if called.call.stop_reason in CUT_SHORT:
                problems, raised = (CUT_REPLY, *problems), 1
        return usable or called

    def move_past_refusal(self, role: str, refused: str | None = None) -> bool:
        """Move on to the role's next model, since the same one would refuse again.

        Args:
            role: whose model refused.
            refused: the model, as it was asked; None: the one that plays the role now.

        Returns:
            False if the chain has no further model.
        """
        chain, now = self.selection.chain(role), self.selection.model_of(role)
        if refused not in {None, now} and workflow.patched(ONE_REFUSAL_ONE_STEP):
            return True  # a call beside this one has moved on already
        following = self.run.state.chain_index.get(self.selection.chain_key(role), 0) + 1
        if following >= len(chain):
            return False
        self._move_on(role, chain, following, failed=now, why=REFUSED)
        return True

    async def _on_model(
        self, ask: ModelCallSpec, model: str, *, compact: bool, tries: ModelAttempts
    ) -> Called:
        """One model of the chain; a call that did not fit is reserved anew.

        A prompt may outgrow its estimate a few times. Attempts that the provider failed count
        over all reservations; those that died with their worker are no fault of the call, until a
        person is asked whether its input breaks them.
        """
        while tries.outgrown < RESERVATION_TRIES:
            # A retry after a provider's failure is a new step, so a pause holds it too.
            if await self.steps.wait_while_paused():
                return StepFailed("", "interrupted", "the run was stopped while it was paused")
            called = await self._reserve_and_call(ask, model, compact=compact, tries=tries)
            if isinstance(called, LimitReached) and await self.beside.wait_for_room():
                continue
            ended = tries.note_try(called)
            if ended is not None:
                return ended
            if tries.pause_s is not None:
                await self.steps.leave_alone(tries.pause_s)
                if self.run.demanded_ending() and workflow.patched(NO_RETRY_AFTER_A_STOP):
                    return self._given_up(ask, tries)
            if tries.lost >= LOST_WORKERS:
                if not await self.retries.ask_for_retry(ask.summary):
                    return StepFailed("", LOST, f"{tries.lost} workers were lost over this call")
                tries.lost = 0
        return tries.cause or StepFailed(
            "", "does_not_fit", "the prompt kept outgrowing its reservation"
        )

    def _given_up(self, ask: ModelCallSpec, tries: ModelAttempts) -> StepFailed:
        """How a failed call ends in a run that must end: its provider wanted to be left alone."""
        # A closing text may still come from another model, which then gets a single try too.
        if ask.wrap_up and tries.cause is not None and self.run.interruption is None:
            return tries.cause
        return StepFailed("", "interrupted", "the run was stopped while its provider was failing")

    async def _reserve_and_call(
        self, ask: ModelCallSpec, model: str, *, compact: bool, tries: ModelAttempts
    ) -> Tried:
        state = self.run.state
        card = state.cards[model]
        if is_price_missing(state.budget, card) and (
            state.budget.limits.unknown_price == "block" or workflow.patched(STAND_IN_HAS_A_PRICE)
        ):
            return Unpriced(model)
        factor = state.factors.get(model, 1.0)
        prompt = max(tries.counted, self.fitting.prompt_tokens_of(ask, model))
        # Nothing is scheduled that the budget could not pay in the worst case.
        fit, room = self.fitting.fitted(ask, card, prompt=prompt, outgrown=tries.outgrown)
        if isinstance(fit, LimitReached):
            return fit
        if not ask.wrap_up:  # which the reserve pays, whatever was raised
            self.limits.close_budget_question()
        likely = max(tries.counted, self.fitting.likely_of(ask, model))
        if not compact and ask.head and not room and compaction.is_due(likely, window=card.window):
            compact = True
            self.run.record_event("context_pressure", model=model, cure="compacted near the window")
        # Before the reservation: it is what the call itself may use.
        allowance = self._allowance(ask, fit, factor=factor, tries=tries)
        activity_id = self.run.next_activity_id()
        tries.first_step = tries.first_step or activity_id
        # Under the activity's id, so that whatever becomes of it settles exactly this reservation.
        state.budget = budgets.reserve(state.budget, activity_id, fit.amounts)
        frame, append = state.frame or "", tuple(ask.entries)
        carrier = Carrier.of(model=model, head=ask.head, frame=frame, append=append)
        request = ModelCallRequest(
            frame=frame,
            role=ask.role,
            phase=ask.phase,
            iteration=self.run.iteration,
            model=model,
            head=ask.head,
            append=append,
            on_offer=ask.on_offer,
            tools_off=ask.tools_off,
            allowance=allowance,
            records=tuple(thin(record, carrier) for record in ask.records),
            compact=compact,
            worker=ask.worker or self.run.site.worker,
            continues=ask.continues.hash if ask.continues else None,
            seam=ask.seam if ask.continues else "",
            room=room,
            state=self.run.iteration_state() if ask.records else None,
            settings=self.fitting.manner_of(ask, model),
            shaped=ask.shaped,
            followed=ask.followed,
        )
        self.run.record_event("model_call_started", model=model, role=ask.role)
        with self.beside.in_flight(activity_id):
            called = await self._perform(ask, request, activity_id)
            return await self._settle(called, ask, model=model, activity_id=activity_id)

    def _allowance(
        self, ask: ModelCallSpec, fit: CallFit, *, factor: float, tries: ModelAttempts
    ) -> Allowance:
        """What the activity may use, over all its attempts."""
        state = self.run.state
        calls, output = (
            state.budget.remaining(name, wrap_up=ask.wrap_up)
            for name in ("model_calls", "output_tokens")
        )
        replies, tokens = state.replies.get(ask.role, (0, 0))
        return Allowance(
            max_tokens=fit.max_tokens,
            tokens=fit.amounts.tokens,
            cost_usd=fit.amounts.cost_usd or None,  # what costs nothing has no bound
            factor=factor,
            active_time_s=self.run.active_time_left,
            attempts=None if calls is None else int(calls),
            output_tokens=None if output is None else int(output),
            tries=self.fitting.provider_tries(ask, fallback=tries.fallback),
            tried=tries.failed,
            patience_s=self.run.site.timing.failover_after if tries.fallback else None,
            waited_s=tries.failing_s,
            typical_output=typical_output(replies=replies, tokens=tokens),
            first_step=tries.first_step,
            least=min(fit.max_tokens, self.fitting.least_reply(ask)),
            count_cache_reads=state.budget.limits.count_cache_reads,
        )

    async def _perform(
        self, ask: ModelCallSpec, request: ModelCallRequest, activity_id: str
    ) -> Performed:
        summary = f"{ask.summary} · {short_model_name(request.model)}"
        config = activity_options.model_call(
            self.run.site,
            summary=summary,
            role=ask.role,
            activity_id=activity_id,
            queue=self.run.state.queues.get(request.model),
        )
        self.run.set_step(summary)
        if ask.structured is not None:
            reading = ask.structured.start(request, config)
            return await self.steps.await_step(reading, activity_id=activity_id)
        plain = workflow.start_activity_method(CallModel.call_model, request, **config)
        return await self.steps.await_step(plain, activity_id=activity_id)

    async def _settle(
        self, called: Performed, ask: ModelCallSpec, *, model: str, activity_id: str
    ) -> Tried:
        self.run.set_step(None)
        if isinstance(called, StepFailed):
            # An activity that died or timed out reports nothing. The journal knows what it spent;
            # guessing here would book the same tokens twice or never.
            account = (
                called.failure.account
                if called.failure is not None
                else await self._reconciled(activity_id)
            )
            self._charge(activity_id, account, ask, model=model)
            # An interrupted call must not look like a failure of its model: nothing fails over for
            # a stop.
            stopped = called.code in {"cancelled", "unresponsive"}
            return StepFailed(activity_id, "interrupted", called.message) if stopped else called
        report = named(called.report, model)
        call = report.call if isinstance(report, StructuredReport) else report
        self._charge(activity_id, call.account, ask, model=model)
        if call.status == "replied":
            self._learn_from(call, model=model, role=ask.role)
        return report

    def _charge(
        self, activity_id: str, account: AttemptTotals, ask: ModelCallSpec, *, model: str
    ) -> None:
        state = self.run.state
        settled = budgets.settle(state.budget, activity_id, account)
        self.run.apply_budget(self.beside.worked(settled, account.seconds))
        state.by_phase = charged(state.by_phase, ask.phase, account)
        state.by_model = charged(state.by_model, model, account)

    def _learn_from(self, call: ModelCallReport, *, model: str, role: str) -> None:
        state = self.run.state
        # The usage of several attempts is one sum, which tells no length of a reply.
        if call.account.attempts == 1 and call.account.usage.output_tokens:
            replies, tokens = state.replies.get(role, (0, 0))
            said = call.account.usage.output_tokens
            state.replies = {**state.replies, role: (replies + 1, tokens + said)}
        state.factors = {
            **state.factors,
            model: calibrate(
                factor=state.factors.get(model, 1.0),
                estimated=call.prompt_estimate,
                reported=call.prompt_tokens,
            ),
        }
        if call.model and call.model not in state.models_used:
            state.models_used = [*state.models_used, call.model]
        self.run.record_event(
            "model_replied",
            model=call.model,
            tokens=call.account.total_usage.counted_tokens(),
            stop_reason=call.stop_reason,
            text=call.excerpt or None,
        )

    async def _reconciled(self, activity_id: str) -> AttemptTotals:
        return await workflow.execute_activity_method(
            Reconcile.reconcile,
            ReconcileRequest(activity_id=activity_id),
            **activity_options.store_step(self.run.site, summary=f"reconcile step {activity_id}"),
        )
