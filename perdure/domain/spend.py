"""Spend split by phase and by model."""

from collections.abc import Mapping

from perdure.domain.state import Slice
from perdure.domain.usage import Account, add_cost


def charged(slices: Mapping[str, Slice], name: str, account: Account) -> dict[str, Slice]:
    """The slices with an account added under `name`."""
    held = slices.get(name, Slice())
    added = Slice(
        usage=held.usage + account.total_usage,
        cost_usd=add_cost(held.cost_usd, account.total_cost_usd),
        calls=held.calls + account.attempts,
    )
    return {**slices, name: added}
