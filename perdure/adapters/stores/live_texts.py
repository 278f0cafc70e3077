"""Text of model calls in flight, and who watches it. No step waits for this store."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import and_, delete, func, or_, select

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import live_texts, live_watches
from perdure.domain.run.live_text import LiveCall

# Rows that are older were left behind by a worker or a watcher that died.
LEFT_AFTER = timedelta(hours=1)
# PostgreSQL cannot store NUL, and UTF-8 has no lone surrogates; a model's text may hold both. The
# text is only for display, so replacing them does no harm.
_UNSTORABLE = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")
_KEYS = ("run", "call")


class SqlLiveTexts:
    """`LiveTexts` over one row per call and one per watched run."""

    def __init__(self, database: Database, *, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    async def show(self, calls: Sequence[LiveCall]) -> None:
        now = self._now()
        rows = [_row(call) | {"written_at": now} for call in calls]
        new = self._database.insert(live_texts).values(rows)
        # An older attempt may not know that it was given up; it must not overwrite the newer one.
        current = or_(
            live_texts.c.key != new.excluded.key, live_texts.c.attempt <= new.excluded.attempt
        )
        replace = new.on_conflict_do_update(
            index_elements=_KEYS,
            set_={name: new.excluded[name] for name in rows[0] if name not in _KEYS},
            where=current,
        )
        await self._database.change(replace)

    async def drop(self, calls: Sequence[LiveCall]) -> None:
        # Only rows of this attempt: the next one may have taken the row over.
        gone = [
            and_(
                live_texts.c.run == call.run,
                live_texts.c.call == call.call,
                live_texts.c.key == call.key,
                live_texts.c.attempt == call.attempt,
            )
            for call in calls
        ]
        await self._database.change(delete(live_texts).where(or_(*gone)))

    async def below(self, run: str) -> list[LiveCall]:
        below = f"{run}."
        query = (
            select(*(column for column in live_texts.columns if column.name != "written_at"))
            .where(
                or_(
                    live_texts.c.run == run,
                    # Not LIKE: SQLite's ignores case.
                    func.substr(live_texts.c.run, 1, len(below)) == below,
                )
            )
            .order_by(live_texts.c.written_at, live_texts.c.run, live_texts.c.call)
        )
        return [LiveCall.model_validate(dict(row)) for row in await self._database.rows(query)]

    async def watch(self, run: str) -> None:
        now = self._now()
        new = self._database.insert(live_watches).values(run=run, beat=1, written_at=now)
        raised = new.on_conflict_do_update(
            index_elements=["run"],
            set_={"beat": live_watches.c.beat + 1, "written_at": new.excluded.written_at},
        )
        await self._database.change(raised)

    async def watched(self) -> dict[str, int]:
        query = select(live_watches.c.run, live_watches.c.beat)
        async with self._database.read() as connection:
            return dict((await connection.execute(query)).all())

    async def prune(self) -> None:
        before = self._now() - LEFT_AFTER
        async with self._database.write() as connection:
            for table in (live_texts, live_watches):
                await connection.execute(delete(table).where(table.c.written_at < before))


def _row(call: LiveCall) -> dict[str, object]:
    # One character replaces one, so that offsets stay right.
    return {**call.model_dump(), "text": call.text.translate(_UNSTORABLE)}
