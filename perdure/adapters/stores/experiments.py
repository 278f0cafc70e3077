"""Experiments as rows: one for each experiment, input and trial."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from sqlalchemy import RowMapping, and_, case, delete, func, or_, select, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import experiment_inputs, experiment_trials, experiments
from perdure.domain.experiments.plan import Entry, Plan
from perdure.domain.experiments.store import (
    EndReason,
    ExperimentState,
    Place,
    StoredExperiment,
    Totals,
    UnreadableExperiment,
)
from perdure.domain.experiments.trials import Trial, total_usd
from perdure.domain.foundation.errors import Unreadable
from perdure.domain.foundation.tolerance import read_stored

LOCK = "experiments"
WRITTEN_AT_ONCE = 500
PICO = Decimal(10) ** 12  # costs as whole numbers, which both databases add exactly
MOST_PICO = 1_000 * int(PICO)
"""Of one trial; sums of what is more would leave the integers of a database."""


class SqlExperiments:
    """The port `ExperimentStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, experiment: StoredExperiment, entries: Sequence[Entry]) -> bool:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await connection.scalar(
                select(experiments.c.id).where(experiments.c.id == experiment.id)
            )
            if known is not None:
                return False
            row = {
                "id": experiment.id,
                "name": experiment.plan.name,
                "plan": experiment.plan.model_dump_json(by_alias=True),
                "state": experiment.state,
                "reason": experiment.reason,
                "inputs": len(entries),
                "digest": experiment.digest,
                "created_at": experiment.created_at,
                "ended_at": experiment.ended_at,
            }
            await connection.execute(self._database.insert(experiments).values(row))
            for rows in _pages(experiment.id, entries, first=0):
                await connection.execute(self._database.insert(experiment_inputs).values(rows))
            return True

    async def get(self, id: str) -> StoredExperiment | None:
        row = await self._database.row(select(experiments).where(experiments.c.id == id))
        return None if row is None else _experiment(row)

    async def list(
        self, *, limit: int = 100, after: Place | None = None
    ) -> Sequence[StoredExperiment | UnreadableExperiment]:
        row = experiments.c
        query = select(experiments).order_by(row.created_at.desc(), row.id)
        if after is not None:
            older = row.created_at < after.created_at
            query = query.where(
                or_(older, and_(row.created_at == after.created_at, row.id > after.id))
            )
        rows = await self._database.rows(query.limit(limit))
        return [_listed(row) for row in rows]

    async def put_plan(self, id: str, plan: Plan) -> None:
        told = plan.model_dump_json(by_alias=True)
        await self._database.change(
            update(experiments).where(experiments.c.id == id).values(plan=told)
        )

    async def add_entries(self, id: str, entries: Sequence[Entry], *, after: int) -> bool:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            changed = await connection.execute(
                update(experiments)
                # Positions follow from the count: of two who add at once, one is refused.
                .where(experiments.c.id == id, experiments.c.inputs == after)
                .values(inputs=after + len(entries))
            )
            if not changed.rowcount:
                return False
            for rows in _pages(id, entries, first=after):
                await connection.execute(self._database.insert(experiment_inputs).values(rows))
            return True

    async def entry(self, id: str, position: int) -> Entry | None:
        inputs = experiment_inputs.c
        query = select(inputs.entry).where(inputs.experiment == id, inputs.position == position)
        found = await self._database.value(query)
        return None if found is None else _entry(found, id, position)

    async def entries(self, id: str) -> Sequence[Entry]:
        inputs = experiment_inputs.c
        query = select(inputs.entry).where(inputs.experiment == id).order_by(inputs.position)
        rows = enumerate(await self._database.values(query))
        return [_entry(text, id, position) for position, text in rows]

    async def put_trial(self, id: str, trial: Trial) -> None:
        row = {
            "experiment": id,
            "number": trial.number,
            "ended": trial.ended,
            "trial": trial.model_dump_json(exclude_defaults=True),
            **_spend(trial),
        }
        insert = self._database.insert(experiment_trials).values(row)
        replace = insert.on_conflict_do_update(
            index_elements=("experiment", "number"),
            set_={name: insert.excluded[name] for name in row.keys() - {"experiment", "number"}},
        )
        await self._database.change(replace)

    async def trial(self, id: str, number: int) -> Trial | None:
        trials = experiment_trials.c
        query = select(trials.trial).where(trials.experiment == id, trials.number == number)
        found = await self._database.value(query)
        return None if found is None else _trial(found, id)

    async def trials(self, id: str) -> Sequence[Trial]:
        trials = experiment_trials.c
        query = select(trials.trial).where(trials.experiment == id).order_by(trials.number)
        return [_trial(text, id) for text in await self._database.values(query)]

    async def totals(self, ids: Sequence[str]) -> Mapping[str, Totals]:
        trials = experiment_trials.c
        query = (
            select(
                trials.experiment,
                func.sum(case((trials.ended.is_(True), 1), else_=0)).label("ended"),
                func.sum(trials.tokens).label("tokens"),
                func.sum(trials.pico_usd).label("pico_usd"),
                (func.count(trials.tokens) - func.count(trials.pico_usd)).label("unpriced"),
                (func.count() - func.count(trials.tokens)).label("unread"),
            )
            .where(trials.experiment.in_(ids))
            .group_by(trials.experiment)
        )
        rows = await self._database.rows(query)
        found = {id: Totals() for id in ids}
        for row in rows:
            unread = await self._unread(row["experiment"]) if row["unread"] else []
            # PostgreSQL gives sums of whole numbers as decimals, and both give NULL for no value.
            added = Decimal(int(row["pico_usd"] or 0)) / PICO
            costs = [None if row["unpriced"] else added, *(trial.spent_usd for trial in unread)]
            found[row["experiment"]] = Totals(
                ended=int(row["ended"]),
                spent_usd=total_usd(costs),
                spent_tokens=int(row["tokens"] or 0) + sum(trial.spent_tokens for trial in unread),
            )
        return found

    async def _unread(self, id: str) -> Sequence[Trial]:
        """Trials whose rows have no sums, because an earlier version wrote them."""
        trials = experiment_trials.c
        query = select(trials.trial).where(trials.experiment == id, trials.tokens.is_(None))
        return [_trial(text, id) for text in await self._database.values(query)]

    async def note(
        self, id: str, state: ExperimentState, *, reason: EndReason = "", at: datetime
    ) -> None:
        ended = at if state == "ended" else None
        await self._database.change(
            update(experiments)
            .where(experiments.c.id == id)
            .values(state=state, reason=reason, ended_at=ended)
        )

    async def delete(self, id: str) -> bool:
        async with self._database.write() as connection:
            for table in (experiment_inputs, experiment_trials):
                await connection.execute(delete(table).where(table.c.experiment == id))
            gone = await connection.execute(delete(experiments).where(experiments.c.id == id))
            return bool(gone.rowcount)


def _spend(trial: Trial) -> dict[str, int | None]:
    """The spend of a trial as whole numbers; tokens are None if the sum would not be exact."""
    spent = trial.spent_usd
    if spent is None:
        return {"tokens": trial.spent_tokens, "pico_usd": None}
    pico = spent * PICO
    if pico != pico.to_integral_value() or not 0 <= pico <= MOST_PICO:
        return {"tokens": None, "pico_usd": None}
    return {"tokens": trial.spent_tokens, "pico_usd": int(pico)}


def _pages(id: str, entries: Sequence[Entry], *, first: int) -> list[list[dict[str, object]]]:
    rows: list[dict[str, object]] = [
        {
            "experiment": id,
            "position": position,
            "entry": entry.model_dump_json(exclude_defaults=True),
        }
        for position, entry in enumerate(entries, start=first)
    ]
    return [rows[at : at + WRITTEN_AT_ONCE] for at in range(0, len(rows), WRITTEN_AT_ONCE)]


def _entry(text: str, id: str, position: int) -> Entry:
    return read_stored(Entry, text, what=f"the input {position + 1} of {id}")


def _trial(text: str, id: str) -> Trial:
    return read_stored(Trial, text, what=f"a trial of {id}")


def _listed(row: RowMapping) -> StoredExperiment | UnreadableExperiment:
    try:
        return _experiment(row)
    except Unreadable as error:
        kept = {name: row[name] for name in UnreadableExperiment.model_fields if name in row}
        return UnreadableExperiment.model_validate({**kept, "why": f"{error.message} {error.cure}"})


def _experiment(row: RowMapping) -> StoredExperiment:
    id = row["id"]
    return StoredExperiment(
        id=id,
        plan=read_stored(
            Plan,
            row["plan"],
            what=f"the experiment {id}",
            cure=f"Run the version that wrote it, or forget it: perdure experiment delete {id}",
        ),
        inputs=int(row["inputs"]),
        digest=row["digest"],
        created_at=row["created_at"],
        state=row["state"],
        reason=row["reason"],
        ended_at=row["ended_at"],
    )
