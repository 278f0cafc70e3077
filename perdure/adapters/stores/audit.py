"""The audit trail as rows; the port is `perdure.domain.run.audit.AuditStore`."""

from datetime import datetime

from sqlalchemy import delete, select

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import audit
from perdure.domain.run.audit import AuditEntry, AuditFilter


class SqlAudit:
    """`AuditStore` over one table; nothing but `forget` takes an entry away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, entry: AuditEntry) -> None:
        new = self._database.insert(audit).values(entry.model_dump())
        change = new.on_conflict_do_update(
            index_elements=["id"],
            set_={
                "outcome": new.excluded.outcome,
                "about": new.excluded.about,
                "last_at": new.excluded.last_at,
                "count": audit.c.count + new.excluded.count,
            },
        )
        async with self._database.write() as connection:
            await connection.execute(change)

    async def entries(self, wanted: AuditFilter) -> list[AuditEntry]:
        query = select(audit).order_by(audit.c.last_at.desc(), audit.c.id)
        for name in ("action", "outcome", "run", "who"):
            if (value := getattr(wanted, name)) is not None:
                query = query.where(audit.c[name] == value)
        if wanted.since is not None:
            query = query.where(audit.c.last_at >= wanted.since)
        query = query.limit(wanted.limit).offset(wanted.offset)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [AuditEntry.model_validate(dict(row)) for row in rows]

    async def forget(self, *, before: datetime) -> int:
        async with self._database.write() as connection:
            return (
                await connection.execute(delete(audit).where(audit.c.last_at < before))
            ).rowcount
