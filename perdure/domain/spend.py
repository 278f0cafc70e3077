"""Spend split by phase, by model and by child run."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import JsonValue

from perdure.domain.children import slice_usage
from perdure.domain.result import SpendReport
from perdure.domain.state import CoreState, Slice
from perdure.domain.usage import Account, add_cost

CHILDREN_NAMED = 64
EARLIER = "earlier"


def charged(slices: Mapping[str, Slice], name: str, account: Account) -> dict[str, Slice]:
    """The slices with an account added under `name`."""
    held = slices.get(name, Slice())
    added = Slice(
        usage=held.usage + account.total_usage,
        cost_usd=add_cost(held.cost_usd, account.total_cost_usd),
        calls=held.calls + account.attempts,
    )
    return {**slices, name: added}


def with_child(core: CoreState, child: str, spend: SpendReport) -> None:
    """Add what a child run used to the splits of its parent; many children share one line."""
    core.by_phase = _merged(core.by_phase, spend.by_phase)
    core.by_model = _merged(core.by_model, spend.by_model)
    used = Slice(
        usage=spend.usage + spend.unconfirmed_usage,
        cost_usd=spend.cost_usd,
        calls=spend.model_calls,
    )
    named = _summed(core.by_child, child, used)
    while len(named) > CHILDREN_NAMED:
        oldest = next(name for name in named if name != EARLIER)
        named = _summed(named, EARLIER, named.pop(oldest))
    core.by_child = named


def slices(split: Mapping[str, Slice]) -> dict[str, dict[str, JsonValue]]:
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
    split: Mapping[str, Slice], shown: Mapping[str, Mapping[str, JsonValue]]
) -> dict[str, Slice]:
    merged = dict(split)
    for name, line in shown.items():
        cost = line.get("cost_usd")
        part = Slice(
            usage=slice_usage(line),
            cost_usd=None if cost is None else Decimal(str(cost)),
            calls=int(str(line.get("model_calls", 0))),
        )
        merged = _summed(merged, name, part)
    return merged


def _summed(split: Mapping[str, Slice], name: str, more: Slice) -> dict[str, Slice]:
    held = split.get(name, Slice())
    added = Slice(
        usage=held.usage + more.usage,
        cost_usd=add_cost(held.cost_usd, more.cost_usd),
        calls=held.calls + more.calls,
    )
    return {**split, name: added}
