"""One attempt of a model call before it is sent: its key, its request hash, its limits."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from temporalio import activity

from perdure.domain.budget.accounting import worst_cost
from perdure.domain.budget.allowances import presumed
from perdure.domain.budget.journal import Attempt
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import CallContext, ModelProfile, ModelRequest, Price
from perdure.domain.llm.transcript import TranscriptRef, message_tokens
from perdure.domain.llm.usage import Usage
from perdure.domain.run.activity_messages import Frame, ModelCallRequest

LEAST_SHARE_OF_OUTPUT = 0.75
# Limits, what is stored on the way, and a hint for the provider's cache: the question stays the
# same without them.
NOT_ASKED = {"allowance", "records", "state", "followed"}


@dataclass(frozen=True, slots=True)
class Terms:
    """What determines the cost of an attempt: prompt tokens, longest reply, price."""

    prompt_tokens: int
    max_tokens: int
    typical_output: int | None
    price: Price | None

    def used(self, seen: Usage | None) -> tuple[Usage, Decimal | None]:
        """What to book for an attempt whose usage the provider never reported."""
        usage = presumed(
            seen,
            prompt_tokens=self.prompt_tokens,
            max_tokens=self.max_tokens,
            typical_output=self.typical_output,
        )
        if self.price is None:
            return usage, None
        told = seen is not None and seen.prompt_tokens
        return usage, self.price.cost(usage) if told else worst_cost(self.price, usage)

    def cost(self, usage: Usage) -> Decimal | None:
        """The price of the usage that the provider reported."""
        return None if self.price is None else self.price.cost(usage)


def call_context(step: ModelCallRequest, *, run: str) -> CallContext:
    """The identity of the call: execution and activity id, the same for all attempts."""
    info = activity.info()
    return CallContext(
        run=run,
        role=step.role,
        iteration=step.iteration,
        key=f"{info.workflow_run_id}/{info.activity_id}",
        call=f"{info.workflow_run_id}/{step.allowance.first_step or info.activity_id}",
        attempt=info.attempt,
        worker=step.worker,
    )


def request_hash(step: ModelCallRequest) -> str:
    """The SHA-256 of everything that a reply depends on.

    Fields with their default value are left out, so that a later version that adds a field computes
    the same hash for the same request.
    """
    content = step.model_dump(mode="json", exclude=NOT_ASKED, exclude_defaults=True)
    # The hash stays in the journal, and each version must make the same one for the same request.
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def offers_of(frame: Frame, names: Sequence[str] | None) -> list[str]:
    """The tool names on offer in a call, in the frame's order."""
    # The frame's order, always: a provider caches a prompt only if its tools come in the same
    # order.
    known = [tool.name for tool in frame.tools]
    return known if names is None else [name for name in known if name in names]


def estimates(
    step: ModelCallRequest, request: ModelRequest, *, head: TranscriptRef, card: ModelProfile
) -> tuple[int, int]:
    """What the model's calibration learns from, and the tokens to expect of the whole prompt.

    Nothing is learned from a prompt with images: their part is a bound, no estimate.
    """
    short = step.room is not None
    text, media = prompt_estimate(request, head=head, short=short), head.tokens.media
    if short or not media:
        return text, round(text * step.allowance.factor)
    return 0, round(text * step.allowance.factor) + card.attachment_tokens(media)


def prompt_estimate(request: ModelRequest, *, head: TranscriptRef, short: bool = False) -> int:
    """Tokens of the prompt's text by our own count, before calibration."""
    said = sum(message_tokens(one).text for one in request.messages) if short else 0
    fixed = estimate(request.system).total
    for tool in request.tools:
        fixed += estimate(f"{tool.name} {tool.description} {tool.parameters}").total
    return (said if short else head.tokens.text) + fixed


def terms_of(
    step: ModelCallRequest, request: ModelRequest, *, frame: Frame, prompt_tokens: int
) -> Terms:
    """The terms of an attempt with a prompt of this size."""
    return Terms(
        prompt_tokens=prompt_tokens,
        max_tokens=request.max_tokens,
        typical_output=step.allowance.typical_output,
        price=frame.cards[request.model].price,
    )


def attempt_of(
    step: ModelCallRequest, request: ModelRequest, *, frame: Frame, terms: Terms
) -> Attempt:
    """Build the journal entry of an attempt."""
    context = request.context
    # The worst case limits what may be sent. What is booked for a lost attempt is the expected
    # case: the worst would be many times what the provider bills.
    worst = Usage(input_tokens=terms.prompt_tokens, output_tokens=request.max_tokens)
    expected, expected_cost = terms.used(None)
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
        estimate_cost_usd=None if terms.price is None else worst_cost(terms.price, worst),
        expected=expected,
        expected_cost_usd=expected_cost,
        reservation_tokens=step.allowance.tokens,
        reservation_cost_usd=step.allowance.cost_usd,
        reservation_attempts=step.allowance.attempts,
        reservation_output_tokens=step.allowance.output_tokens,
        count_cache_reads=step.allowance.count_cache_reads,
    )


def within_allowance(
    step: ModelCallRequest, request: ModelRequest, *, prompt: int, price: Price | None
) -> ModelRequest:
    """The request with a slightly shorter reply if its prompt is longer than was reserved.

    Estimates are off by some percent. Asking the workflow for a new reservation each time would
    cost an extra step per call.
    """
    allowance, wanted = step.allowance, request.max_tokens
    if allowance.tokens is None or prompt + wanted <= allowance.tokens:
        return request
    smaller = request.model_copy(update={"max_tokens": allowance.tokens - prompt})
    enough = smaller.max_tokens >= max(wanted * LEAST_SHARE_OF_OUTPUT, allowance.least)
    fitting = enough and affordable(step, prompt=prompt, max_tokens=smaller.max_tokens, price=price)
    return smaller if fitting else request


def within_window(
    request: ModelRequest, *, prompt: int, window: int, least: int = 0
) -> ModelRequest:
    """The request with its reply limited to what the prompt leaves of the context window.

    If that leaves less than `least`, the request stays as it is: the provider refuses it, and a
    shorter prompt or another model follows.
    """
    room = window - prompt
    if room < max(1, least) or request.max_tokens <= room:
        return request
    return request.model_copy(update={"max_tokens": room})


def affordable(
    step: ModelCallRequest, *, prompt: int, max_tokens: int, price: Price | None
) -> bool:
    """Whether one attempt fits what was reserved for the call."""
    allowance = step.allowance
    if allowance.tokens is not None and prompt + max_tokens > allowance.tokens:
        return False
    if allowance.cost_usd is None or price is None:
        return True
    worst = Usage(input_tokens=prompt, output_tokens=max_tokens)
    return worst_cost(price, worst) <= allowance.cost_usd
