"""Journaled model calls: no reply is paid for twice, and no attempt is forgotten.

The order is: open the attempt, call the provider, store the reply, commit its row. If a worker dies
between two of these steps, the next attempt marks the open one as lost, at its estimated cost. How
often a step is tried again, and when a person is asked, is decided in
`perdure.workflows.engine.lost_worker_retries`.
"""

import asyncio
import zlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeVar

from temporalio import activity

from perdure.activities.support.error_mapping import UNREADABLE, model_failure, unreadable
from perdure.activities.support.heartbeat import (
    Finished,
    Interrupted,
    Stopwatch,
    to_the_end,
    within,
)
from perdure.activities.support.live_text_writer import LiveTextWriter
from perdure.activities.support.prepared_attempt import (
    Terms,
    affordable,
    attempt_of,
    request_hash,
    terms_of,
    within_allowance,
    within_window,
)
from perdure.activities.support.usage_notes import UsageNotes
from perdure.domain.budget.allowances import Allowance
from perdure.domain.budget.journal import (
    Attempt,
    Begin,
    DoesNotFit,
    Journal,
    Proceed,
    Replayed,
    RunClosed,
    is_within_reservation,
)
from perdure.domain.foundation.retry_policies import (
    LOST_WORKERS,
    MODEL_SLACK_S,
    UNHEARD_ROUNDS,
    is_last,
    own_limit,
)
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.errors import ModelError, ModelFacts, retry_delay, tries_after
from perdure.domain.llm.requests import ModelReply, ModelRequest
from perdure.domain.llm.usage import MOST_TOKENS, AttemptTotals, Usage
from perdure.domain.ports import BlobStore, Models
from perdure.domain.run.activity_messages import Frame, ModelCallRequest, ModelFailure

Told = TypeVar("Told", ModelReply, ModelFacts)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts when the provider does not say, in seconds."""

    initial_s: float = 2.0
    maximum_s: float = 30.0

    def pause(self, facts: ModelFacts, *, failures: int) -> float:
        """Seconds before the next attempt of a call that failed so often."""
        info = activity.info()
        # Seeded by what names the attempt: the same for a replayed test, different between runs.
        seed = zlib.crc32(f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}".encode())
        return retry_delay(
            attempt=failures,
            retry_after_s=facts.retry_after_s,
            initial_s=self.initial_s,
            maximum_s=self.maximum_s,
            jitter=0.8 + 0.4 * (seed % 1000) / 1000,
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply with its spend; `prompt_tokens` is the counted or reported size of the prompt."""

    reply: ModelReply
    account: AttemptTotals
    prompt_tokens: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """No reply: the call did not fit, was interrupted, lost its workers, or the run is closed."""

    status: Literal["does_not_fit", "interrupted", "sealed", "lost_workers"]
    account: AttemptTotals
    prompt_tokens: int


@dataclass(frozen=True, kw_only=True)
class JournaledModel:
    """Calls models through the journal."""

    models: Models
    journal: Journal
    blobs: BlobStore
    live: LiveTextWriter
    backoff: Backoff

    async def call(
        self, step: ModelCallRequest, request: ModelRequest, *, frame: Frame, estimate: int
    ) -> Answered | NotSent:
        """Make one attempt of a logical call.

        Args:
            step: the workflow's request; its allowance is what all attempts may use together.
            request: what the provider gets.
            frame: the run's frame, for prices.
            estimate: tokens of the prompt by our own count, used where the provider cannot tell.

        Raises:
            ApplicationError: the attempt failed; its account rides in the details.
        """
        if (known := await self._known(step, request)) is not None:
            return known
        counted = await self.models.resolve(request.model).count(request)
        prompt = counted if counted is not None and _is_count(counted) else estimate
        price = frame.cards[request.model].price
        window = frame.cards[request.model].window
        request = within_window(request, prompt=prompt, window=window, least=step.allowance.least)
        request = within_allowance(step, request, prompt=prompt, price=price)
        terms = terms_of(step, request, frame=frame, prompt_tokens=prompt)
        attempt = attempt_of(step, request, frame=frame, terms=terms)
        active = await self._active_time_left(step, attempt)
        out_of_time = active is not None and active <= 0
        fitting = affordable(step, prompt=prompt, max_tokens=request.max_tokens, price=price)
        if out_of_time or not fitting:
            # The key ends here for good, so an attempt that a kill left open is booked now.
            account = await self.journal.reconcile(attempt.key)
            return NotSent("interrupted" if out_of_time else "does_not_fit", account, prompt)
        # One transaction opens the attempt and checks the seal and the reservation. Nothing may be
        # sent before it, or a kill would leave a call that nobody has booked.
        begun = await self._begin(attempt)
        match begun:
            case Replayed():
                return await self._replayed(begun)
            case DoesNotFit():
                return NotSent("does_not_fit", begun.account, prompt)
            case RunClosed():
                return NotSent("sealed", AttemptTotals(), prompt)
            case Proceed():
                return await self._attempted(
                    step, request, attempt=attempt, terms=terms, active=active
                )

    async def give_up_if_lost(self, key: str) -> AttemptTotals | None:
        """What a call spent that has killed too many workers; None if it may go on."""
        number = activity.info().attempt
        if number <= LOST_WORKERS:
            return None
        # A worker that died over an attempt leaves it open. An attempt without a row may never have
        # reached a worker: a network outage of some minutes swallows many.
        told, untold = await self.journal.traces(key)
        without_end = number - 1 - told
        if untold < LOST_WORKERS and without_end < LOST_WORKERS * UNHEARD_ROUNDS:
            return None
        return await self.journal.reconcile(key)

    async def _known(self, step: ModelCallRequest, request: ModelRequest) -> Answered | None:
        """The reply of an earlier attempt: it is paid for, so it counts in any case."""
        if request.context.attempt == 1:
            return None
        found = await self.journal.answered(request.context.key, request_hash(step))
        return None if found is None else await self._replayed(found)

    async def _active_time_left(self, step: ModelCallRequest, attempt: Attempt) -> float | None:
        """Seconds of active time that earlier attempts of the call left; None if unlimited."""
        left = step.allowance.active_time_s
        if left is None or attempt.attempt == 1:
            return left
        # Attempts that died with their worker told no time, and are charged none.
        return left - (await self.journal.account(attempt.key)).seconds

    async def _replayed(self, found: Replayed) -> Answered:
        reply = read(ModelReply, await self.blobs.get(found.reply))
        return Answered(reply, found.account, reply.usage.prompt_tokens, replayed=True)

    async def _attempted(
        self,
        step: ModelCallRequest,
        request: ModelRequest,
        *,
        attempt: Attempt,
        terms: Terms,
        active: float | None,
    ) -> Answered | NotSent:
        watch = Stopwatch()
        notes = UsageNotes(lambda seen: self._expects(attempt, terms, seen))
        client = self.models.resolve(request.model)
        limit = own_limit(activity.info().start_to_close_timeout)
        patience = None if limit is None else limit - MODEL_SLACK_S
        try:
            async with notes:
                with self.live.showing(step, request) as text:
                    ended = await within(
                        client.call(request, on_text=text.add, on_answer=notes.answers),
                        seconds=min((s for s in (active, patience) if s is not None), default=None),
                    )
            out_of_time = isinstance(ended, Interrupted) and ended.by == "active_time"
            if out_of_time and patience and (active is None or patience < active):
                raise ModelError(_too_late(patience, notes.seen))
        except ModelError as error:
            seconds = watch.seconds
            # The failure is booked even if the step is cancelled now: the provider may charge for
            # it.
            raise await to_the_end(
                self._book_failure(
                    step.allowance, attempt, error.facts, terms=terms, seconds=seconds
                )
            ) from error
        except asyncio.CancelledError:
            await self._book_loss(attempt, notes, terms, seconds=watch.seconds)
            raise
        # Read before the booking: what the store takes is no time of the model.
        seconds = watch.seconds
        match ended:
            case Interrupted():
                await self._book_loss(attempt, notes, terms, seconds=seconds)
                account = await self.journal.reconcile(attempt.key)
                return NotSent("interrupted", account, attempt.estimate.input_tokens)
            case Finished(value=reply):
                # Kept with the reply, so that people can see what it answers.
                reply = reply.model_copy(update={"prompt": request.context.prompt})
                return await to_the_end(
                    self._book_answer(attempt, reply, terms=terms, seconds=seconds)
                )

    async def _begin(self, attempt: Attempt) -> Begin:
        """Open the attempt; if cancelled meanwhile, close it again, since nothing was sent."""
        try:
            return await self.journal.begin(attempt)
        except asyncio.CancelledError:
            await to_the_end(
                self.journal.fail(
                    attempt, usage=Usage(), cost_usd=Decimal(0), seconds=0.0, sent=False
                )
            )
            raise

    async def _book_answer(
        self, attempt: Attempt, reply: ModelReply, *, terms: Terms, seconds: float
    ) -> Answered:
        # A stream that broke off after its last text may lack the usage; then the estimate is
        # booked.
        reply = _believed(reply)
        usage, cost = reply.usage, terms.cost(reply.usage)
        if not reply.confirmed:
            usage, cost = terms.used(reply.usage)
            reply = reply.model_copy(update={"usage": usage})
        try:
            content = reply.model_dump_json().encode()
        except UNREADABLE as error:
            # The reply is paid for, but no attempt could ever store it: book it and do not retry.
            await self.journal.fail(attempt, usage=usage, cost_usd=cost, seconds=seconds)
            raise unreadable(error) from error
        # The reply is paid for: while the store is away, this waits with the reply in memory.
        first = await self.journal.answer(
            attempt,
            usage=usage,
            cost_usd=cost,
            reply=await self.blobs.put(content),
            seconds=seconds,
            confirmed=reply.confirmed,
        )
        account = await self.journal.account(attempt.key)
        # An attempt that the server gave up may have answered first: its reply is the one that
        # counts.
        known = None if first else await self.journal.answered(attempt.key, attempt.request_hash)
        if known is not None:
            reply = read(ModelReply, await self.blobs.get(known.reply))
        return Answered(reply, account, reply.usage.prompt_tokens)

    async def _book_failure(
        self,
        allowance: Allowance,
        attempt: Attempt,
        facts: ModelFacts,
        *,
        terms: Terms,
        seconds: float,
    ) -> Exception:
        facts = _believed(facts)
        usage, cost = facts.usage, terms.cost(facts.usage)
        if not facts.confirmed:
            usage, cost = terms.used(facts.usage)
        await self.journal.fail(
            attempt,
            usage=usage,
            cost_usd=cost,
            seconds=seconds,
            sent=facts.sent,
            confirmed=facts.confirmed,
        )
        # Attempts before this one may have died with their worker; they are booked here too.
        account = await self.journal.reconcile(attempt.key)
        failures = allowance.tried + await self.journal.failures(attempt.key)
        waited = allowance.waited_s + await self.journal.failing_for(attempt.key)
        pause = self.backoff.pause(facts, failures=failures)
        last = is_last(
            failures=failures,
            tries=tries_after(facts.kind, tries=allowance.tries),
            waited_s=waited,
            pause_s=pause,
            patience_s=allowance.patience_s,
        )
        return model_failure(
            ModelFailure(facts=facts, account=account, failures=failures, failing_for_s=waited),
            pause_s=None if last else pause,
            fits=is_within_reservation(attempt, account)
            and (allowance.attempts is None or account.attempts < allowance.attempts),
        )

    async def _expects(self, attempt: Attempt, terms: Terms, seen: Usage | None) -> None:
        usage, cost = terms.used(seen)
        await self.journal.expect(attempt, usage=usage, cost_usd=cost)

    async def _book_loss(
        self, attempt: Attempt, notes: UsageNotes, terms: Terms, *, seconds: float
    ) -> None:
        usage, cost = terms.used(notes.seen)
        await to_the_end(self._lose(attempt, usage, cost, seconds))

    async def _lose(
        self, attempt: Attempt, usage: Usage, cost: Decimal | None, seconds: float
    ) -> None:
        await self.journal.expect(attempt, usage=usage, cost_usd=cost)
        await self.journal.fail(attempt, usage=usage, cost_usd=cost, seconds=seconds, lost=True)


def _is_count(told: object) -> bool:
    """Whether a model client told a number of tokens that a prompt can have; none is empty."""
    # What servers and plugins send is not checked on the way, and `True` is an int for Python.
    return isinstance(told, int) and told is not True and 0 < told <= MOST_TOKENS


def _believed(told: Told) -> Told:
    """What a model client told, without a usage that cannot be true: as if it had told none."""
    if told.usage.is_plausible:
        return told
    return told.model_copy(update={"usage": Usage(), "confirmed": False})


def _too_late(seconds: float, seen: Usage | None) -> ModelFacts:
    return ModelFacts(
        kind="timeout",
        message=f"The model did not finish within {seconds:g} s.",
        usage=seen or Usage(),
        confirmed=False,
    )
