"""The state from which a run resumes, without what is stored elsewhere or only displayed.

A *slim* state is stored with the record of an iteration, and once more at the end. `fork_of` makes
the first state of a new run from one, `retry_of` the next state of the same run after a failure.
Both are opened like a fresh run: frame, prices and working folder are made anew.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from pydantic import JsonValue

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run.child_runs import started_loops
from perdure.domain.run.control import Control
from perdure.domain.run.cost_report import charged, money, slices
from perdure.domain.run.events import Ring
from perdure.domain.run.result import Origin, SpendReport
from perdure.domain.run.state import RECORDS_KEPT, LoopState, SpendSlice
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.repeated_tool_calls import ToolCounters
from perdure.domain.turns.turn import TurnState

S = TypeVar("S", bound=LoopState)


class StoredState(FrozenModel):
    """A slim state as it is stored; defaults are left out."""

    kind: str
    state: dict[str, JsonValue]


class Booked(FrozenModel):
    """What the journal says that a run spent."""

    account: AttemptTotals = AttemptTotals()
    by_phase: dict[str, SpendSlice] = {}
    by_model: dict[str, SpendSlice] = {}


def slim(state: S, *, whole_control: bool = False) -> S:
    """The state without what opening makes anew, what records and journal hold, and what shows.

    With `whole_control` what people asked of the run stays, so that a repeated request is known.
    """
    return state.model_copy(
        update={
            "control": _idle(state.control) if whole_control else _pending(state.control),
            # What a step held ends with this execution; loops that a tool started go on spending.
            "budget": state.budget.model_copy(update={"reserved": started_loops(state.budget)}),
            "ring": Ring(last=state.ring.last),
            "phase": "starting",
            "step": None,
            "step_since": None,
            "frame": None,
            "root": "",
            "terms": [],
            "cards": {},
            "queues": {},
            "chain_index": {},
            "system_tokens": 0,
            "task_tokens": 0,
            "task_media": 0,
            "by_phase": {},
            "by_model": {},
            "records": [],
            "record_count": 0,
            "rolls": 0,
            "asking": {},
            "told": {},
            # The runs below end with this execution, and with them their questions.
            "below": {},
            "forward": [],
            "unhooked": [],
            "hook_failures": (),
            "unseen": (),
            "outcome": None,
            "reason": None,
            "explanation": None,
        }
    )


def as_stored(state: LoopState) -> dict[str, JsonValue]:
    """A slim state as JSON data."""
    return state.model_dump(mode="json", exclude_defaults=True)


def taken_up(
    turn: TurnState, head: TranscriptRef | None, tallies: ToolCounters | None
) -> TurnState:
    """The turns of an opened conversation; counters that were not stored come from its text."""
    counted = tallies or turn.tallies
    return turn.model_copy(
        update={
            "head": head or turn.head,
            "tallies": counted,
            "tools_succeeded": turn.tools_succeeded or bool(counted.succeeded),
        }
    )


def with_records(state: S, records: Sequence[IterationRecord]) -> S:
    """The state with its iterations so far, and the files as the newest of them left them."""
    trees = [record.tree_ref for record in records if record.tree_ref]
    return state.model_copy(
        update={
            "records": list(records)[-RECORDS_KEPT:],
            "record_count": max((record.index for record in records), default=0),
            "tree": trees[-1] if trees else state.tree or state.base_tree,
        }
    )


def inherited(records: Iterable[IterationRecord], run: str) -> tuple[IterationRecord, ...]:
    """The records as a fork of `run` takes them over: each says who made it."""
    return tuple(record.model_copy(update={"origin": record.origin or run}) for record in records)


def fork_of(
    state: S, *, now: datetime, limits: BudgetLimits, origin: Origin, say: str | None = None
) -> S:
    """The first state of a fork: another run's state with a new account.

    `say` is told to the model before its next call.
    """
    control = state.control
    guidance = [*control.guidance, *([say] if say else [])]
    return state.model_copy(
        update={
            "started_at": now,
            # With an output to begin with, no reserve has to be kept for a first one.
            "budget": Budget(limits=limits, complete_output=state.budget.complete_output),
            "control": Control(
                guidance=guidance,
                inputs=control.inputs,
                standing=control.standing,
                said_count=control.said_count,
            ),
            "ring": Ring(),
            # The runs below the other run, with their spend and their questions, stay with it.
            "children": [],
            "children_started": 0,
            "dropped_calls": 0,
            "by_child": {},
            "models_used": [],
            "forked_from": origin,
        }
    )


def retry_of(
    state: S,
    *,
    booked: Booked,
    now: datetime,
    ended_at: datetime,
    note: str = "",
    request_id: str | None = None,
) -> S:
    """The next state of the same run after it failed: what it spent is carried, to the token.

    The time between the failure and now is nobody's: the clock goes on where it stood. `now` may be
    before `ended_at` on a host whose clock is behind; the run corrects that by the server's.
    """
    control = state.control
    requests = [*control.requests, *([request_id] if request_id else [])]
    return state.model_copy(
        update={
            "started_at": state.started_at + (now - ended_at),
            "budget": state.budget.model_copy(
                update={
                    "spent": spent_with(state.budget, booked.account),
                    # They may still be open, and are runs of their own: the journal's rows of this
                    # run do not tell what they spend. The agent's next look at them counts anew.
                    "reserved": started_loops(state.budget),
                }
            ),
            "by_phase": booked.by_phase,
            "by_model": booked.by_model,
            "control": control.model_copy(
                update={
                    "requests": requests,
                    "guidance": [*control.guidance, *([note] if note else [])],
                }
            ),
        }
    )


def anew(fresh: S, before: LoopState) -> S:
    """A first state of a run that did nothing yet, with what people asked of it so far."""
    return fresh.model_copy(
        update={
            "started_at": before.started_at,
            "budget": before.budget,
            "control": before.control,
            "ring": before.ring,
            "forked_from": before.forked_from,
        }
    )


def booked_of(rows: Iterable[AttemptRow]) -> Booked:
    """Add up the journal's rows of a run."""
    found = Booked()
    for row in rows:
        account = account_of(row)
        found = Booked(
            account=found.account + account,
            by_phase=charged(found.by_phase, row.phase, account),
            by_model=charged(found.by_model, row.model, account),
        )
    return found


def booked_report(found: Booked, *, count_cache_reads: bool = False) -> SpendReport:
    """The same as a run reports it itself; its active time is that of its calls, one by one."""
    account, cost = found.account, found.account.total_cost_usd
    total = account.total_usage
    return SpendReport(
        tokens=total.counted_tokens(count_cache_reads=count_cache_reads),
        output_tokens=total.output_tokens,
        cost_usd=cost,
        known_cost_usd=account.least_cost_usd if cost is None else None,
        model_calls=account.attempts,
        active_time_s=round(account.seconds, 3),
        usage=account.usage,
        by_phase=slices(found.by_phase, count_cache_reads=count_cache_reads),
        by_model=slices(found.by_model, count_cache_reads=count_cache_reads),
        unconfirmed={
            "tokens": account.unconfirmed.counted_tokens(count_cache_reads=count_cache_reads),
            "cost_usd": money(account.unconfirmed_cost_usd),
        },
        unconfirmed_usage=account.unconfirmed,
    )


def account_of(row: AttemptRow) -> AttemptTotals:
    """One attempt as an account; an estimate, and a reply that came second, are unconfirmed."""
    if row.unconfirmed:
        return AttemptTotals(
            attempts=int(row.sent),
            unconfirmed=row.usage,
            unconfirmed_cost_usd=row.cost_usd,
            seconds=row.seconds,
        )
    return AttemptTotals(
        attempts=int(row.sent), usage=row.usage, cost_usd=row.cost_usd, seconds=row.seconds
    )


def spent_with(budget: Budget, account: AttemptTotals) -> Spend:
    """What was spent, with everything that the journal knows taken from there."""
    total = account.total_usage
    return budget.spent.model_copy(
        update={
            "tokens": total.counted_tokens(count_cache_reads=budget.limits.count_cache_reads),
            "output_tokens": total.output_tokens,
            "model_calls": account.attempts,
            "cost_usd": account.least_cost_usd,
            "unpriced": account.total_cost_usd is None,
            "usage": account.usage,
            "unconfirmed": account.unconfirmed,
            "unconfirmed_cost_usd": account.unconfirmed_cost_usd or Decimal(0),
        }
    )


def _pending(control: Control) -> Control:
    """The input that no prompt contained yet, and the guidance that stands."""
    return Control(
        gates_opened=control.gates_opened,
        guidance=control.guidance,
        inputs=control.inputs,
        standing=control.standing,
        said_count=control.said_count,
    )


def _idle(control: Control) -> Control:
    """The same control, neither paused nor stopped."""
    return control.model_copy(
        update={
            "paused": False,
            "stop": None,
            "stopped_by": None,
            "escalation": None,
            "gates": {name: gate for name, gate in control.gates.items() if not gate.open},
            "awaited": [],
            "ended": False,
        }
    )
