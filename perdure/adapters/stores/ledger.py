"""Sums over the journal of all runs: one aggregate query for each question, plus rolled-up rows.

Labels may be encrypted, so the database sums by run, and lines of one label are merged here. Costs
are exact decimals, which SQLite cannot add: the query joins their texts, which are added here.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, RowMapping, Select, Text, and_, case, func, or_, select

from perdure.adapters.stores.attempts import was_sent
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import attempts, run_savings, runs, tombstones
from perdure.domain.budget.spend_report import (
    ALL_CALLS,
    InputSavings,
    Period,
    SpendCell,
    SpendFilter,
    SpendKey,
    SpendLine,
)
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.llm.usage import Usage

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from perdure.adapters.stores.journal_totals import JournalTotals
    from perdure.adapters.stores.run_owners import Owners

_BETWEEN = " "
LEARNING = learn_run_id("")
_TOKENS = tuple(Usage.model_fields)


class SqlLedger:
    """`Ledger` over the tables `attempts`, `runs` and `run_savings`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def _totals(self) -> "JournalTotals":
        from perdure.adapters.stores.journal_totals import JournalTotals

        return JournalTotals(self._database)

    async def roll_up(self, *, before: datetime) -> int:
        return await self._totals.roll_up(before=before)

    async def spending(
        self, by: SpendKey, period: Period, only: SpendFilter = ALL_CALLS
    ) -> list[SpendLine]:
        lines: dict[str | None, SpendLine] = {}
        owned = by == "owner" or only.asks_owners
        if by in ("kind", "label", "owner", "run") or only.asks_runs:
            query = self._sums_of_runs(by, period, only, owned=owned)
        else:
            query = self._sums(_day() if by == "day" else attempts.c.model, period, only)
        async with self._database.snapshot() as connection:
            for line in await self._totals.lines(connection, by, period, only):
                name = line.name or None
                lines[name] = lines.get(name, SpendLine(name=name)).plus(line)
            owners = await _owners(connection) if owned else None
            for row in (await connection.execute(query)).mappings():
                kind, label = _kind_and_label(row)
                owner = None if owners is None else owners.of(row, label=label)
                if not only.takes(kind=kind, label=label, owner=owner):
                    continue
                name = {"kind": kind, "label": label, "owner": owner}.get(by, row["name"])
                found = SpendLine(name=name, learned_from=_learned_from(by, name, kind))
                lines[name] = lines.get(name, found).plus(_line(row))
        if by == "day":
            return sorted(lines.values(), key=lambda line: line.name or "")
        return sorted(lines.values(), key=_dearest_first)

    async def cells(self) -> list[SpendCell]:
        own = attempts.outerjoin(runs, runs.c.id == attempts.c.run)
        keys = (
            attempts.c.phase.label("phase"),
            attempts.c.model.label("model"),
            _day().label("day"),
            # Learning runs have no row of their own.
            _flag(and_(attempts.c.run.startswith(LEARNING), runs.c.id.is_(None))).label("learning"),
            _flag(_unconfirmed()).label("unconfirmed"),
        )
        query = select(*keys, *self._figures()).select_from(own).group_by(*keys)
        async with self._database.snapshot() as connection:
            rows = (await connection.execute(query)).mappings().all()
            return _together(
                [
                    *await self._totals.cells(connection),
                    *(
                        SpendCell.model_validate(
                            {**{key.name: row[key.name] for key in keys}, "line": _line(row)}
                        )
                        for row in rows
                    ),
                ]
            )

    async def savings(self, period: Period) -> InputSavings:
        ended = run_savings.c.ended_at
        query = select(
            func.count().label("runs"),
            func.coalesce(func.sum(run_savings.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(run_savings.c.naive_input_tokens), 0).label(
                "naive_input_tokens"
            ),
        ).where(ended >= period.begin, ended < period.end)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().one()
        return InputSavings.model_validate({name: int(value) for name, value in row.items()})

    def _sums_of_runs(
        self, by: SpendKey, period: Period, only: SpendFilter, *, owned: bool
    ) -> "Select[tuple[object, ...]]":
        """Sums by a key and the run on top, with kind and label, and if asked who caused it."""
        of = attempts.c.root.label("root")
        key = {"day": _day(), "model": attempts.c.model}.get(by, attempts.c.root)
        sums = self._sums(key, period, only).add_columns(of).group_by(attempts.c.root).subquery()
        # A run that learned has no row: the one that it learned from has its label.
        cause, gone = runs.alias("cause"), tombstones.alias("gone_cause")
        learned = and_(sums.c.root.startswith(LEARNING, autoescape=True), runs.c.id.is_(None))
        of_run = case((learned, func.substr(sums.c.root, len(LEARNING) + 1)), else_=sums.c.root)
        # For a deleted run, its tombstone has the values to group by.
        known = (
            sums.outerjoin(runs, runs.c.id == sums.c.root)
            .outerjoin(tombstones, tombstones.c.run == sums.c.root)
            .outerjoin(cause, and_(learned, cause.c.id == of_run))
            .outerjoin(gone, and_(learned, gone.c.run == of_run))
        )
        # Columns, no COALESCE: each is decrypted under the name of its own column.
        labels = (
            runs.c.label.label("label"),
            tombstones.c.label.label("former_label"),
            cause.c.label.label("cause_label"),
            gone.c.label.label("former_cause_label"),
        )
        kinds = runs.c.kind.label("kind"), tombstones.c.kind.label("former_kind")
        found = select(*sums.c, *labels, *kinds).select_from(known)
        if not owned:
            return found
        from perdure.adapters.stores.run_owners import schedule_of, starter

        return found.add_columns(
            starter(of_run).label("starter"), schedule_of(of_run).label("schedule")
        )

    def _sums(
        self, key: ColumnElement[str], period: Period, only: SpendFilter
    ) -> "Select[tuple[object, ...]]":
        began = attempts.c.started_at
        within = [began >= period.begin, began < period.end]
        if only.model is not None:
            within.append(attempts.c.model == only.model)
        # The type checker cannot infer column types from a list.
        return select(key.label("name"), *self._figures()).where(*within).group_by(key)  # pyright: ignore[reportReturnType]

    def _figures(self) -> Sequence[ColumnElement[int] | ColumnElement[str] | ColumnElement[float]]:
        sent = was_sent()
        tokens = (
            func.coalesce(func.sum(self._database.number_in(attempts.c.usage, name)), 0).label(name)
            for name in _TOKENS
        )
        return (
            _count(sent).label("calls"),
            _count(and_(sent, attempts.c.cost_usd.is_(None))).label("unpriced_calls"),
            _count(and_(sent, _unconfirmed())).label("estimated_calls"),
            func.aggregate_strings(
                func.coalesce(attempts.c.cost_usd, "0", type_=Text), _BETWEEN
            ).label("costs"),
            func.sum(attempts.c.seconds).label("seconds"),
            *tokens,
        )


async def _owners(connection: "AsyncConnection") -> "Owners":
    from perdure.adapters.stores.run_owners import Owners  # most commands ask for no owners

    return await Owners.read(connection)


def _day() -> ColumnElement[str]:
    return func.substr(attempts.c.started_at, 1, 10, type_=Text)


def _kind_and_label(row: RowMapping) -> tuple[str | None, str | None]:
    """Those of the run on top, or what its tombstone says; None where the query did not ask."""
    kind = row.get("kind") or row.get("former_kind") or None
    labels = ("label", "former_label", "cause_label", "former_cause_label")
    return kind, next((row[name] for name in labels if row.get(name)), None)


def _learned_from(by: SpendKey, name: str | None, kind: str | None) -> str | None:
    """The run that a learning run learned from: learning runs have no row, so no kind is known."""
    if by != "run" or kind is not None or not (name or "").startswith(LEARNING):
        return None
    return (name or "").removeprefix(LEARNING)


def _unconfirmed() -> ColumnElement[bool]:
    return or_(attempts.c.at_estimate, attempts.c.state.in_(("lost", "duplicate")))


def _flag(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return case((condition, 1), else_=0)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _line(row: RowMapping) -> SpendLine:
    costs = (Decimal(text) for text in row["costs"].split(_BETWEEN))
    return SpendLine(
        calls=int(row["calls"]),
        unpriced_calls=int(row["unpriced_calls"]),
        estimated_calls=int(row["estimated_calls"]),
        usage=Usage.model_validate({name: int(row[name]) for name in _TOKENS}),
        known_cost_usd=sum(costs, Decimal(0)),
        seconds=round(row["seconds"], 3),
    )


def _together(cells: Sequence[SpendCell]) -> list[SpendCell]:
    """Merge cells with the same names."""
    found: dict[tuple[object, ...], SpendCell] = {}
    for cell in cells:
        names = cell.phase, cell.model, cell.day, cell.learning, cell.unconfirmed
        line = found[names].line.plus(cell.line) if names in found else cell.line
        found[names] = cell.model_copy(update={"line": line})
    return list(found.values())


def _dearest_first(line: SpendLine) -> tuple[Decimal, int, str]:
    return (-line.known_cost_usd, -line.calls, line.name or "")
