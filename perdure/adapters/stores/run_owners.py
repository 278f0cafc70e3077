"""Who caused a run, by the audit trail: who started it, its experiment, or its schedule.

The trail is kept for a limited time, so nobody is known for older runs; neither for those that a
plain Temporal client started.
"""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, RowMapping, ScalarSelect, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.tables import audit, schedule_starts

_MAKERS = ("experiment_started", "schedule_created", "schedule_changed")


def starter(run: ColumnElement[str]) -> ScalarSelect[str]:
    """Who started a run by hand."""
    query = select(audit.c.who).where(
        audit.c.run == run, audit.c.action == "start", audit.c.outcome == "allowed"
    )
    # A start that was repeated has several entries, and a join would count its calls twice.
    return query.order_by(audit.c.seq).limit(1).scalar_subquery()


def schedule_of(run: ColumnElement[str]) -> ScalarSelect[str]:
    """The schedule that started a run."""
    query = select(schedule_starts.c.schedule).where(schedule_starts.c.run == run)
    return query.scalar_subquery()


class Owners:
    """Who started each experiment and made each schedule."""

    def __init__(self, makers: Mapping[str, str]) -> None:
        self._makers = makers

    @classmethod
    async def read(cls, connection: AsyncConnection) -> "Owners":
        """Read the trail; it has an entry for each experiment and schedule, not for their runs."""
        query = select(audit.c.about, audit.c.who).where(
            audit.c.action.in_(_MAKERS), audit.c.outcome == "allowed"
        )
        rows = await connection.execute(query.order_by(audit.c.seq))
        # The newest entry wins: a schedule belongs to whoever changed it last.
        return cls({row.about: row.who for row in rows})

    def of(self, row: RowMapping, *, label: str | None) -> str | None:
        """Who caused the run of a row with `starter` and `schedule`; None if nobody is known.

        Runs of an experiment are labelled with its id.
        """
        known = self._makers
        return (
            row["starter"]
            or known.get(f"schedule {row['schedule']}")
            or known.get(f"experiment {label}")
        )
