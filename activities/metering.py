"""A model call that is journalled, so that no reply is paid for twice and none is forgotten.

Order: open the attempt, call the provider, store the reply, commit the row with it. What a kill
leaves open between two of these steps is marked lost by the next attempt, at its estimate.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from temporalio import activity

from activities.beating import Finished, Interrupted, to_the_end, within
from activities.live_text import LiveText
from activities.stopwatch import Stopwatch
from activities.translate import UNREADABLE, model_failure, unreadable
from perdure.domain.budget import worst_cost
from perdure.domain.errors import StoreError
from perdure.domain.model_errors import ModelError, ModelFacts
from perdure.domain.models import CallContext, ModelReply, ModelRequest, Price
from perdure.domain.ports import (
    Attempt,
    Begin,
    BlobStore,
    DoesNotFit,
    Journal,
    Models,
    Proceed,
    RecordStore,
    Replayed,
    Sealed,
)
from perdure.domain.steps import Frame, ModelCallRequest
from perdure.domain.tolerance import read
from perdure.domain.usage import Account, Usage

COMMIT_TRIES = 30
COMMIT_PAUSE_S = 1.0
LEAST_SHARE_OF_OUTPUT = 0.75
NOT_ASKED = {"allowance", "records", "state"}
UNKNOWN_USAGE_KINDS = frozenset({"timeout", "cut", "bad_reply"})


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts when the provider does not say, in seconds."""

    initial_s: float = 2.0
    maximum_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Metered:
    """A reply with its account; `prompt_tokens` is what the prompt was counted or reported at."""

    reply: ModelReply
    account: Account
    prompt_tokens: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """No reply: it did not fit, was interrupted, or the run is closed for spending."""

    status: Literal["does_not_fit", "interrupted", "sealed"]
    account: Account
    prompt_tokens: int


class MeteredModel:
    """Calls models through the journal."""

    def __init__(
        self,
        *,
        models: Models,
        journal: Journal,
        blobs: BlobStore,
        records: RecordStore,
        backoff: Backoff,
    ) -> None:
        self._models = models
        self._journal = journal
        self._blobs = blobs
        self._records = records
        self._backoff = backoff

    async def call(
        self, step: ModelCallRequest, request: ModelRequest, *, frame: Frame, estimate: int
    ) -> Metered | NotSent:
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
        counted = await self._count(request)
        prompt = counted if counted is not None else estimate
        price = frame.cards[request.model].price
        request = _within_allowance(step, request, prompt=prompt, price=price)
        attempt = self._attempt(step, request, frame=frame, prompt=prompt)
        if not _fits(step, prompt=prompt, max_tokens=request.max_tokens, price=price):
            # The key ends here for good, so an attempt that a kill left open is booked now.
            account = await self._journal.reconcile(attempt.key)
            return NotSent(status="does_not_fit", account=account, prompt_tokens=prompt)
        begun = await self._begin(attempt)
        match begun:
            case Replayed():
                return await self._replayed(begun)
            case DoesNotFit():
                return NotSent("does_not_fit", begun.account, prompt)
            case Sealed():
                return NotSent("sealed", Account(), prompt)
            case Proceed():
                return await self._attempted(step, request, attempt=attempt, price=price)

    async def _known(self, step: ModelCallRequest, request: ModelRequest) -> Metered | None:
        """The reply of an attempt before this one, which is paid for whatever fits by now."""
        if request.context.attempt == 1:
            return None
        found = await self._journal.answered(request.context.key, request_hash(step))
        return None if found is None else await self._replayed(found)

    async def _replayed(self, found: Replayed) -> Metered:
        reply = read(ModelReply, await self._blobs.get(found.reply))
        return Metered(reply, found.account, reply.usage.prompt_tokens, replayed=True)

    async def _attempted(
        self,
        step: ModelCallRequest,
        request: ModelRequest,
        *,
        attempt: Attempt,
        price: Price | None,
    ) -> Metered | NotSent:
        watch = Stopwatch()
        live = LiveText(self._records, run=request.context.run, attempt=attempt)
        client = self._models.resolve(request.model)
        try:
            async with live:
                ended = await within(
                    client.call(request, on_text=live.add), seconds=step.allowance.active_time_s
                )
        except ModelError as error:
            seconds = watch.seconds
            raise await to_the_end(self._failed(attempt, error.facts, price, seconds)) from error
        except asyncio.CancelledError:
            await self._lost(attempt, watch.seconds)
            raise
        seconds = watch.seconds
        match ended:
            case Interrupted():
                await self._lost(attempt, seconds)
                account = await self._journal.reconcile(attempt.key)
                return NotSent("interrupted", account, attempt.estimate.input_tokens)
            case Finished(value=reply):
                return await to_the_end(
                    self._answered(attempt, reply, price=price, seconds=seconds)
                )

    async def _begin(self, attempt: Attempt) -> Begin:
        """Open the attempt; a cancellation meanwhile closes it again, for nothing was sent."""
        try:
            return await self._journal.begin(attempt)
        except asyncio.CancelledError:
            await to_the_end(
                self._journal.fail(
                    attempt, usage=Usage(), cost_usd=Decimal(0), seconds=0.0, sent=False
                )
            )
            raise

    async def _answered(
        self, attempt: Attempt, reply: ModelReply, *, price: Price | None, seconds: float
    ) -> Metered:
        cost = None if price is None else price.cost(reply.usage)
        try:
            content = reply.model_dump_json().encode()
        except UNREADABLE as error:
            # Paid for, and never to be stored: booked as it is, and not paid for again.
            await self._journal.fail(attempt, usage=reply.usage, cost_usd=cost, seconds=seconds)
            raise unreadable(error) from error
        first = await self._commit(attempt, reply, content, cost=cost, seconds=seconds)
        account = await self._journal.account(attempt.key)
        known = None if first else await self._journal.answered(attempt.key, attempt.request_hash)
        if known is not None:
            reply = read(ModelReply, await self._blobs.get(known.reply))
        return Metered(reply, account, reply.usage.prompt_tokens)

    async def _commit(
        self,
        attempt: Attempt,
        reply: ModelReply,
        content: bytes,
        *,
        cost: Decimal | None,
        seconds: float,
    ) -> bool:
        # The reply is paid for: a full disk or a locked table is waited out while it is in hand.
        for remaining in range(COMMIT_TRIES - 1, -1, -1):
            try:
                address = await self._blobs.put(content)
                return await self._journal.answer(
                    attempt, usage=reply.usage, cost_usd=cost, reply=address, seconds=seconds
                )
            except StoreError:
                if remaining == 0:
                    raise
                await asyncio.sleep(COMMIT_PAUSE_S)
        raise AssertionError

    async def _failed(
        self, attempt: Attempt, facts: ModelFacts, price: Price | None, seconds: float
    ) -> Exception:
        unknown = facts.usage == Usage() and facts.sent and facts.kind in UNKNOWN_USAGE_KINDS
        cost = None if price is None else price.cost(facts.usage)
        await self._journal.fail(
            attempt,
            usage=facts.usage,
            cost_usd=cost,
            seconds=seconds,
            lost=unknown,
            sent=facts.sent,
        )
        account = await self._journal.reconcile(attempt.key)
        return model_failure(
            facts,
            account,
            initial_s=self._backoff.initial_s,
            maximum_s=self._backoff.maximum_s,
        )

    async def _lost(self, attempt: Attempt, seconds: float) -> None:
        await to_the_end(
            self._journal.fail(attempt, usage=Usage(), cost_usd=None, seconds=seconds, lost=True)
        )

    async def _count(self, request: ModelRequest) -> int | None:
        return await self._models.resolve(request.model).count(request)

    def _attempt(
        self, step: ModelCallRequest, request: ModelRequest, *, frame: Frame, prompt: int
    ) -> Attempt:
        context = request.context
        worst = Usage(input_tokens=prompt, output_tokens=request.max_tokens)
        price = frame.cards[request.model].price
        return Attempt(
            key=context.key,
            attempt=context.attempt,
            execution=activity.info().workflow_run_id or "",
            root=frame.root,
            run=frame.run,
            phase=step.phase,
            role=step.role,
            iteration=step.iteration,
            model=request.model,
            request_hash=request_hash(step),
            estimate=worst,
            estimate_cost_usd=None if price is None else worst_cost(price, worst),
            reservation_tokens=step.allowance.tokens,
            reservation_cost_usd=step.allowance.cost_usd,
            reservation_attempts=step.allowance.attempts,
            reservation_output_tokens=step.allowance.output_tokens,
        )


def call_context(step: ModelCallRequest, *, run: str) -> CallContext:
    """Name the logical call: the execution and the activity in it, stable over retries."""
    info = activity.info()
    return CallContext(
        run=run,
        role=step.role,
        iteration=step.iteration,
        key=f"{info.workflow_run_id}/{info.activity_id}",
        attempt=info.attempt,
        worker=step.worker,
    )


def request_hash(step: ModelCallRequest) -> str:
    """The SHA-256 of what a reply depends on; allowances and what is only written do not.

    Fields at their default are left out, so that a version that adds one asks the same question
    under the same hash as the version before it.
    """
    content = step.model_dump(mode="json", exclude=NOT_ASKED, exclude_defaults=True)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def offers_of(frame: Frame, names: Sequence[str] | None) -> list[str]:
    """The tool names on offer in a call, in the frame's order."""
    known = [tool.name for tool in frame.tools]
    return known if names is None else [name for name in known if name in names]


def _within_allowance(
    step: ModelCallRequest, request: ModelRequest, *, prompt: int, price: Price | None
) -> ModelRequest:
    """The request with a little less room to answer, where the prompt is longer than was reserved.

    Estimates are off by some percent; asking the workflow for a new reservation each time would
    cost a step per call.
    """
    allowance, wanted = step.allowance, request.max_tokens
    if allowance.tokens is None or prompt + wanted <= allowance.tokens:
        return request
    smaller = request.model_copy(update={"max_tokens": allowance.tokens - prompt})
    enough = smaller.max_tokens >= wanted * LEAST_SHARE_OF_OUTPUT
    fitting = enough and _fits(step, prompt=prompt, max_tokens=smaller.max_tokens, price=price)
    return smaller if fitting else request


def _fits(step: ModelCallRequest, *, prompt: int, max_tokens: int, price: Price | None) -> bool:
    allowance = step.allowance
    if allowance.tokens is not None and prompt + max_tokens > allowance.tokens:
        return False
    if allowance.cost_usd is None or price is None:
        return True
    worst = Usage(input_tokens=prompt, output_tokens=max_tokens)
    return worst_cost(price, worst) <= allowance.cost_usd
