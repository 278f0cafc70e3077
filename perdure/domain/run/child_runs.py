"""Runs that work for another run: their ids, their share of its budget, and what they used of it.

The workflow starts, watches and ends them; here is decided what a child may use, and how its spend
becomes part of its parent's, once, on whatever path it ends.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from perdure.domain.budget.accounting import (
    Budget,
    BudgetLimits,
    LimitReached,
    Reservation,
    release,
    reserve,
)
from perdure.domain.budget.allowances import CHILD_FRACTION_RANGE, allocate_child
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import SpendReport
from perdure.domain.run.spec import CommonSpec, Placement
from perdure.domain.turns.guidance import Said


class Commission(FrozenModel):
    """Who a run works for, the address of its whole task, and how its models are to sample.

    A run that works for nobody may still be told how to sample.
    """

    parent: str | None = None
    label: str | None = None
    briefing: str | None = None
    temperature: float | None = None


def commission_of(site: Placement, spec: CommonSpec) -> Commission | None:
    """The commission of a run; None for one that is told nothing of the kind."""
    if site.parent is None and spec.agent.temperature is None:
        return None
    return Commission(
        parent=site.parent,
        label=spec.metadata.label,
        briefing=site.briefing,
        temperature=spec.agent.temperature,
    )


@dataclass(frozen=True, slots=True)
class Heard:
    """What children have been told of people's messages to the run above them."""

    paused: bool = False
    stop: bool = False
    said: int = 0
    holds: tuple[Said, ...] = ()


# Children of a wave are awaited within one iteration, because continue-as-new would end them, and
# each costs the parent's history about ten events.
WAVE = 16
LOOP = "loop "
# Short, because the id of a run holds the names of all runs above it.
NAME_CHARACTERS = 12
CHILDREN_KEPT = 48
# The rounding error of shares that add up to one.
SHARE_SLACK = 1e-9


class ChildStatus(FrozenModel):
    """One child run as its parent knows it.

    `limits` are its share of the parent's budget; `confidence` is what it says of its own result.
    """

    id: str
    name: str
    kind: str
    state: Literal["running", "ended"] = "running"
    outcome: str | None = None
    reason: str | None = None
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    token_limit: int | None = None
    cost_limit_usd: Decimal | None = None
    confidence: float | None = None

    @property
    def open(self) -> bool:
        return self.state == "running"


def child_id(parent: str, number: int, name: str) -> str:
    """The id of a run's child: `<parent>.w3-name`; the number alone makes it unique.

    What begins with a run's id and a dot is below it, however deep.
    """
    # It begins with the parent's id, so that one seal of the journal closes the whole subtree, also
    # what has not started yet.
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:NAME_CHARACTERS].strip("-")
    return f"{parent}.w{number}-{slug}" if slug else f"{parent}.w{number}"


def child_number(child: str, parent: str) -> int:
    """The number in the id of a direct child; 0 for an id of another form."""
    found = re.match(r"w(\d+)", child.removeprefix(f"{parent}."))
    return int(found[1]) if found else 0


def is_child(run: str) -> bool:
    """Whether an id has the form of a child's: the run above it decides what follows its end."""
    return re.search(r"\.w\d+(-[a-z0-9-]*)?$", run) is not None


def child_name(child: str, parent: str) -> str:
    """The name in the id of a direct child; its number where it has none."""
    number, _, name = child.removeprefix(f"{parent}.").partition("-")
    return name or number


def names_below(run: str) -> tuple[str, ...]:
    """The names in the id of a run below another, outermost first; none for a root."""
    above = lineage(run)
    pairs = pairwise(above)
    return tuple(child_name(child, parent) for parent, child in pairs if is_child(child))


def is_below(run: str, ancestor: str) -> bool:
    """Whether a run of the same tree works for another, directly or not."""
    return run.startswith(f"{ancestor}.")


def lineage(run: str) -> tuple[str, ...]:
    """The run itself and all that its id says it may be below, outermost first."""
    parts = run.split(".")
    return tuple(".".join(parts[: depth + 1]) for depth in range(len(parts)))


def fractions(asked: Sequence[float | None]) -> tuple[float | None, ...]:
    """Shares of what remains before any of them is given, as fractions of what remains each time.

    A share is at least the least that a child gets, and at most all. One that the ones before it
    leave no room for becomes 0: that child is refused. One that nobody asked for stays None.
    """
    # Of what remains each time: a third half is refused, while shares that nobody asked for become
    # 30, 21, 14 percent.
    given: list[float | None] = []
    left = 1.0
    for wanted in asked:
        if wanted is None:
            given.append(None)
            continue
        share = min(1.0, max(CHILD_FRACTION_RANGE[0], wanted))
        fits = share <= left + SHARE_SLACK
        given.append(min(1.0, share / left) if fits and left > SHARE_SLACK else 0.0)
        left -= share if fits else 0.0
    return tuple(given)


def reserve_run(
    budget: Budget,
    key: str,
    *,
    spawns: bool,
    fraction: float | None = None,
    siblings: int = 1,
    wall_time: float = 0.0,
) -> tuple[Budget, BudgetLimits] | LimitReached:
    """Reserve a child's share, and count it; its clocks are what remains of the parent's.

    Args:
        budget: the parent's.
        key: what the reservation is held under: the child's id.
        spawns: the child may have children of its own; only such a one takes a level of depth and
            a share of the workers.
        fraction: of what remains; 0 refuses.
        siblings: how many are started together, which bounds the default share.
        wall_time: seconds since the parent began.
    """
    if fraction is not None and fraction <= 0:
        return refused_share(budget)
    if spawns and budget.limits.depth < 1:
        return LimitReached(
            dimension="workers",
            spent=Decimal(0),
            limit=Decimal(0),
            note="depth: this run may not start runs that start runs themselves",
        )
    allocated = allocate_child(budget, key, fraction=fraction, siblings=siblings)
    if isinstance(allocated, LimitReached):
        return allocated
    held, limits = allocated
    # Of `budget`, not of `held`, from which this child's share is taken off already.
    below = _workers_below(budget, limits.workers) if spawns else None
    if below == 0:
        return _no_workers(budget)
    limits = limits.model_copy(
        update={
            "depth": limits.depth if spawns else 0,
            "workers": below,
            "active_time": _left(budget, "active_time", 0.0),
            "wall_time": _left(budget, "wall_time", wall_time),
        }
    )
    # The child is a worker itself, besides those that it may have.
    amounts = held.reserved[key].model_copy(update={"workers": 1 + (below or 0)})
    return reserve(held, key, amounts), limits


def hold_started(budget: Budget, held: Mapping[str, Reservation]) -> Budget:
    """Hold back what loops that a tool started may use, or used; the newest look counts.

    They are runs of their own, not children, because they must outlive the run that started them:
    nothing of them is charged here, and what they hold is not spent twice.
    """
    loops = started_loops(budget)
    kept = {key: amounts for key, amounts in budget.reserved.items() if key not in loops}
    started = {f"{LOOP}{run}": amounts for run, amounts in held.items()}
    return budget.model_copy(update={"reserved": {**kept, **started}})


def started_loops(budget: Budget) -> dict[str, Reservation]:
    """The reservations for loops that a tool started; they outlive the run's own steps."""
    return {key: amounts for key, amounts in budget.reserved.items() if key.startswith(LOOP)}


def refused_share(budget: Budget) -> LimitReached:
    """Why a child whose siblings were promised everything gets nothing."""
    return LimitReached(
        dimension="tokens",
        spent=budget.spent.of("tokens", wall_time=0.0),
        limit=budget.limits.limit("tokens") or Decimal(0),
        note="budget_share: the shares of this delegation add up to more than there is",
    )


def settle_run(budget: Budget, key: str, spend: SpendReport, *, spawned: bool) -> Budget:
    """Replace a child's reservation by what it used, itself counted as a worker.

    Its active time is no part of that: siblings work at the same time.
    """
    # Its end may be heard of more than once, and is booked once.
    if key not in budget.reserved:
        return budget
    spent, unconfirmed_cost = budget.spent, spend.unconfirmed.get("cost_usd")
    settled = spent.model_copy(
        update={
            "tokens": spent.tokens + spend.tokens,
            "output_tokens": spent.output_tokens + spend.output_tokens,
            "model_calls": spent.model_calls + spend.model_calls,
            "cost_usd": spent.cost_usd + spend.least_cost_usd,
            "unpriced": spent.unpriced or spend.cost_usd is None,
            "tool_calls": spent.tool_calls + spend.tool_calls,
            "iterations": spent.iterations + spend.iterations,
            "workers": spent.workers + spend.workers + 1,
            "sub_managers": spent.sub_managers + spend.sub_managers + int(spawned),
            "usage": spent.usage + spend.usage,
            "unconfirmed": spent.unconfirmed + spend.unconfirmed_usage,
            "unconfirmed_cost_usd": spent.unconfirmed_cost_usd
            + Decimal(str(unconfirmed_cost or 0)),
        }
    )
    return release(budget, key).model_copy(update={"spent": settled})


def slice_usage(line: Mapping[str, object]) -> Usage:
    """The usage behind one line of a spend report, which tells tokens, input and output."""
    tokens, prompt, output = (
        int(str(line.get(name, 0))) for name in ("tokens", "input_tokens", "output_tokens")
    )
    # Tokens leave out what was read from a cache. Where the budget counts that too, nothing is left
    # here, and it counts as plain input.
    cached = max(0, prompt + output - tokens)
    return Usage(input_tokens=prompt - cached, output_tokens=output, cache_read_tokens=cached)


def with_child_status(known: Sequence[ChildStatus], child: ChildStatus) -> list[ChildStatus]:
    """The children with one changed or added; of the ended ones only the newest are kept."""
    kept = [other for other in known if other.id != child.id]
    place = next((n for n, other in enumerate(known) if other.id == child.id), len(kept))
    kept.insert(place, child)
    # Open ones stay, however many there are: a child that is not listed is not heard.
    surplus = len(kept) - CHILDREN_KEPT
    for ended in [other for other in kept if not other.open][: max(0, surplus)]:
        kept.remove(ended)
    return kept


def _workers_below(budget: Budget, share: int | None) -> int | None:
    """How many of the workers a child may have that is one of them itself; None: unlimited."""
    left = budget.remaining("workers")
    return None if left is None or share is None else min(share, int(left) - 1)


def _no_workers(budget: Budget) -> LimitReached:
    used = budget.spent.of("workers", wall_time=0.0) + budget.reserved_in("workers")
    return LimitReached(
        dimension="workers", spent=used, limit=budget.limits.limit("workers") or Decimal(0)
    )


def _left(budget: Budget, clock: Literal["active_time", "wall_time"], wall: float) -> float | None:
    left = budget.remaining(clock, wall_time=wall)
    # Zero would mean that there is no limit.
    return None if left is None else max(0.001, float(left))
