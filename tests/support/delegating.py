"""Short words for tests of the delegation loop: decisions, workers' replies, what was spent."""

from collections.abc import Mapping
from decimal import Decimal

from installation import Installation

from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult

Reply = Mapping[str, object]
PRICE = {"input_per_million": 1.0, "output_per_million": 10.0}
USAGE = {"usage": {"input_tokens": 1_000, "output_tokens": 100}}


def delegation(**more: object) -> dict[str, object]:
    """A delegation task without reviewers, whose tools only read."""
    given = dict(more)
    settings = {"critique": {"enabled": False}, **dict(given.pop("delegation", {}))}  # type: ignore[call-overload]
    return {
        "kind": "delegation",
        "goal": "Describe the bottle.",
        "learn": False,
        "tools": {"access": "minimal"},
        "delegation": settings,
        **given,
    }


def decides(decision: str, *, worker: str | None = None, **fields: object) -> Reply:
    """A manager's reply; `worker` names the sub-manager that it is for."""
    when = {"role": "manager", **({"worker": worker} if worker else {})}
    return {"when": when, "json": {"decision": decision, "reason": "so", **fields}}


def delegates(*workers: str, by: str | None = None, **fields: object) -> Reply:
    """A delegation to workers by name, each with the same fields."""
    work = [{"worker": name, "instructions": f"Do the part {name}.", **fields} for name in workers]
    return decides("delegate", worker=by, delegations=work)


def completes(text: str = "A bottle of steel.", *, by: str | None = None, **more: object) -> Reply:
    """A completion."""
    return decides("complete", worker=by, final_result=text, confidence=0.9, **more)


def works(worker: str, result: object = "steel", confidence: float = 0.7, **more: object) -> Reply:
    """A worker's structured reply."""
    said = {"result": result, "confidence": confidence, "findings": [f"{worker} found {result}"]}
    entry = {name: more.pop(name) for name in ("delay_s", "times") if name in more}
    return {"when": {"role": "worker", "worker": worker}, "json": {**said, **more}, **entry}


def script(*replies: Reply, **more: object) -> dict[str, object]:
    """A script with prices, so that money is counted too."""
    return {"price": PRICE, "defaults": USAGE, "replies": list(replies), **more}


async def books_of_the_tree_agree(site: Installation, result: RunResult) -> None:
    """Journal and result name the same spend, to the token and to the cent."""
    rows = await site.parts.stores.journal.tree(root=result.id, run=result.id)
    booked = sum((row.usage for row in rows), Usage())
    assert result.spend.tokens == booked.counted_tokens()
    assert result.spend.usage + result.spend.unconfirmed_usage == booked
    assert result.spend.model_calls == sum(row.sent for row in rows)
    costs = [row.cost_usd for row in rows]
    assert None not in costs
    assert sum((cost for cost in costs if cost is not None), Decimal(0)) == result.spend.cost_usd
    by_model = [Decimal(str(line["cost_usd"])) for line in result.spend.by_model.values()]
    assert sum(by_model, Decimal(0)) == result.spend.cost_usd
