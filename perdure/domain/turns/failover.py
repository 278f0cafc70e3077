"""Which model of a chain comes next when one has failed, and which may not be called at all."""

from collections.abc import Collection, Mapping, Sequence

from perdure.domain.budget.accounting import Budget
from perdure.domain.llm.requests import ModelProfile

OVERFLOW_CODE = "model_context_overflow"
# New runs skip a model whose newest attempt failed this lately, if the chain has another. The
# journal knows it, so no other table is needed.
SKIPPED_AFTER_FAILURE_S = 60.0


def next_model(
    chain: Sequence[str], index: int, cards: Mapping[str, ModelProfile], *, overflow: bool
) -> int | None:
    """The index of the next model to try, or None; after an overflow only larger windows count."""
    window = cards[chain[index]].window
    for following in range(index + 1, len(chain)):
        if not overflow or cards[chain[following]].window > window:
            return following
    return None


def left_behind(failed: ModelProfile | None, following: str) -> str | None:
    """What of a conversation only the failed model could have used, in words; None for nothing.

    Words, calls and results of the conversation go on. Thoughts are signed or encrypted for the
    model that had them, and a prompt cache is one model's own.
    """
    if failed is None or failed.name == following or failed.thinking == ():
        return None
    return f"thoughts and prompt cache of {failed.name}"


def first_model(chain: Sequence[str], failing: Collection[str]) -> int:
    """Where a new run begins in its chain: behind models that failed in the last minute.

    A chain of failing models alone is tried from its start.
    """
    healthy = [index for index, model in enumerate(chain) if model not in failing]
    return healthy[0] if healthy else 0


def is_price_missing(budget: Budget, card: ModelProfile) -> bool:
    """Whether a cost limit forbids a model whose price nobody knows, and no stand-in has one."""
    return (
        card.price is None
        and budget.limits.limit("cost") is not None
        and budget.limits.unknown_price != "unverified"
    )
