"""How long ended runs are kept: rules by outcome and label; the first that fits decides."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import nearest_name
from perdure.domain.retention.erasure import RootRun
from perdure.domain.run.status import StoredRun

# A day at least, so that no slip drops what just ended; with more digits, dates would leave the
# calendar.
_RULE = re.compile(r"(?:(?P<days>[1-9]\d{0,4})d|(?P<never>keep))\s*(?P<conditions>.*)")
_CONDITIONS = ("outcome", "label")
FORM = "such as `30d outcome=failed; keep label=audit-*; 365d`"


class RetentionRule(FrozenModel):
    """Runs with this outcome and a label of this form are dropped so long after their end.

    `days` is None for those that are kept for good; an empty condition fits every run.
    """

    days: int | None = None
    outcome: str = ""
    label: str = ""

    @property
    def _form(self) -> re.Pattern[str]:
        # Not `fnmatch`: `[` and `?` in a label stand for themselves, or `keep` would lose runs.
        return re.compile(".*".join(map(re.escape, self.label.split("*"))), re.DOTALL)

    def fits(self, run: StoredRun | RootRun) -> bool:
        """Whether the rule is about a run; `*` in its label stands for anything."""
        return (not self.outcome or run.outcome == self.outcome) and (
            not self.label or self._form.fullmatch(run.label or "") is not None
        )


def read_rules(text: str) -> tuple[RetentionRule, ...]:
    """The rules of a setting.

    Raises:
        ValueError: one of them is none; the message says which, and why.
    """
    return tuple(_rule(part.strip()) for part in text.split(";") if part.strip())


def due_by(rules: Sequence[RetentionRule], now: datetime) -> datetime | None:
    """Whatever ended later is kept by all rules; None where they keep everything."""
    # By the shortest rule, as any may fit: this only bounds what is read, `is_expired` decides.
    days = [rule.days for rule in rules if rule.days is not None]
    return now - timedelta(days=min(days)) if days else None


def is_expired(run: StoredRun | RootRun, rules: Sequence[RetentionRule], now: datetime) -> bool:
    """Whether an ended run is kept no longer; one that no rule fits is kept."""
    if run.ended_at is None:
        return False
    rule = next((rule for rule in rules if rule.fits(run)), None)
    if rule is None or rule.days is None:
        return False
    return run.ended_at + timedelta(days=rule.days) <= now


def _rule(text: str) -> RetentionRule:
    read = _RULE.fullmatch(text)
    if read is None:
        raise ValueError(f"{text[:60]!r} is no rule, {FORM}")
    found: dict[str, str] = {}
    for word in read["conditions"].split():
        name, equals, value = word.partition("=")
        if name not in _CONDITIONS or not equals or not value:
            raise ValueError(f"{word[:60]!r} in {text[:60]!r} is neither outcome=… nor label=…")
        found[name] = value
    outcome = found.get("outcome", "")
    if outcome and outcome not in REASONS:
        near = nearest_name(outcome, REASONS)
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f"there is no outcome {outcome[:40]!r}{hint}")
    days = None if read["never"] else int(read["days"])
    return RetentionRule(days=days, **found)
