"""Schedules in words, for the terminal and the page."""

from datetime import datetime

from perdure.domain.schedules.plan import Overlap, SchedulePlan, Times
from perdure.domain.schedules.status import ScheduleStatus
from perdure.interfaces.formatting import duration, money, plural, tokens

OVERLAP_WORDS: dict[Overlap, str] = {
    "skip": "a start is skipped while a run is open",
    "buffer_one": "one start waits while a run is open",
    "buffer_all": "starts wait while a run is open",
    "cancel_other": "the open run is stopped, and the new one starts",
    "allow_all": "runs may be open side by side",
}


def times_words(times: Times) -> str:
    """`0 9 * * MON-FRI in Europe/Berlin`, or `every 6 h`."""
    jitter = f", up to {duration(times.jitter_s)} late" if times.jitter_s else ""
    if times.every_s is None:
        return f"{'; '.join(times.cron)} in {times.time_zone}{jitter}"
    offset = f", {duration(times.offset_s)} after" if times.offset_s else ""
    return f"every {duration(times.every_s)}{offset}{jitter}"


def month_words(status: ScheduleStatus) -> str:
    """`$1.20 of $20.00, 1 open run may spend $2.00`."""
    budget, spend = status.plan.month, status.month
    known = f"{money(spend.cost_usd)}{' and calls without a price' if spend.unpriced else ''}"
    parts = [f"{known} of {money(budget.cost_usd)}" if budget.cost_usd else known]
    parts += [
        f"{tokens(spend.tokens)} of {tokens(budget.tokens)} tokens"
        if budget.tokens
        else f"{tokens(spend.tokens)} tokens"
    ]
    if spend.holding and not budget.unlimited:
        held = [money(spend.held_usd)] if budget.cost_usd else []
        held += [f"{tokens(spend.held_tokens)} tokens"] if budget.tokens else []
        parts += [f"{plural(spend.holding, 'open run')} may spend {' and '.join(held)}"]
    return ", ".join(parts)


def budget_words(plan: SchedulePlan) -> str:
    """`$20.00 and 1M tokens a month`, or `no limit`."""
    budget = plan.month
    limits = [money(budget.cost_usd)] if budget.cost_usd else []
    limits += [f"{tokens(budget.tokens)} tokens"] if budget.tokens else []
    return f"{' and '.join(limits)} a month" if limits else "no limit"


def local(moment: datetime, times: Times) -> str:
    """A moment in the time zone of the schedule, to the minute."""
    return moment.astimezone(times.zone).strftime("%a %Y-%m-%d %H:%M %Z")


def state_words(status: ScheduleStatus) -> str:
    """`active`, `paused: why`, or what keeps it from starting runs."""
    match status.state:
        case "missing":
            return status.problem
        case "paused":
            return f"paused: {status.note}" if status.note else "paused"
        case "active":
            return "active"


def trouble(status: ScheduleStatus) -> str:
    """What a person should know about it; empty if all is well."""
    told = [status.problem] if status.problem else []
    if status.refused:
        told += [f"{plural(status.refused, 'start')} of this month refused: its budget is spent"]
    if status.missed:
        told += [f"{plural(status.missed, 'start')} came too late to be made up for"]
    return "; ".join(told)
