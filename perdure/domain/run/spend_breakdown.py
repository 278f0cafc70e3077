"""Spend split by phase, by model and by child run."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import JsonValue

from perdure.domain.llm.usage import AttemptTotals, add_cost
from perdure.domain.run.child_runs import slice_usage
from perdure.domain.run.result import SpendReport
from perdure.domain.run.state import LoopState, SpendSlice

CHILDREN_NAMED = 64
EARLIER = "earlier"


def charged(
    slices: Mapping[str, SpendSlice], name: str, account: AttemptTotals
) -> dict[str, SpendSlice]:
    """The slices with an account added under `name`."""
    held = slices.get(name, SpendSlice())
    added = SpendSlice(
        usage=held.usage + account.total_usage,
        cost_usd=add_cost(held.cost_usd, account.total_cost_usd),
        calls=held.calls + account.attempts,
    )
    return {**slices, name: added}


def with_child(core: LoopState, child: str, spend: SpendReport) -> None:
    """Add what a child run used to the splits of its parent; many children share one line."""
    core.by_phase = _merged(core.by_phase, spend.by_phase)
    core.by_model = _merged(core.by_model, spend.by_model)
    used = SpendSlice(
        usage=spend.usage + spend.unconfirmed_usage,
        cost_usd=spend.cost_usd,
        calls=spend.model_calls,
    )
    named = _summed(core.by_child, child, used)
    while len(named) > CHILDREN_NAMED:
        oldest = next(name for name in named if name != EARLIER)
        named = _summed(named, EARLIER, named.pop(oldest))
    core.by_child = named


def slices(split: Mapping[str, SpendSlice]) -> dict[str, dict[str, JsonValue]]:
    """A split of spend as results show it."""
    return {
        name: {
            "tokens": part.usage.counted_tokens(),
            "input_tokens": part.usage.prompt_tokens,
            "output_tokens": part.usage.output_tokens,
            "cost_usd": money(part.cost_usd),
            "model_calls": part.calls,
        }
        for name, part in sorted(split.items())
    }


def money(value: Decimal | None) -> str | None:
    """An amount as text, exact and without trailing zeros; None stays unknown."""
    return None if value is None else f"{value.normalize():f}"


def _merged(
    split: Mapping[str, SpendSlice], shown: Mapping[str, Mapping[str, JsonValue]]
) -> dict[str, SpendSlice]:
    merged = dict(split)
    for name, line in shown.items():
        cost = line.get("cost_usd")
        part = SpendSlice(
            usage=slice_usage(line),
            cost_usd=None if cost is None else Decimal(str(cost)),
            calls=int(str(line.get("model_calls", 0))),
        )
        merged = _summed(merged, name, part)
    return merged


def _summed(split: Mapping[str, SpendSlice], name: str, more: SpendSlice) -> dict[str, SpendSlice]:
    held = split.get(name, SpendSlice())
    added = SpendSlice(
        usage=held.usage + more.usage,
        cost_usd=add_cost(held.cost_usd, more.cost_usd),
        calls=held.calls + more.calls,
    )
    return {**split, name: added}
