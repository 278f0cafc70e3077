"""Artifacts in the database: who made what when, and where its content lies."""

from collections.abc import Sequence

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.scope_rows import LOCK, columns_of, fields_of, require_room, within
from perdure.adapters.stores.tables import artifacts
from perdure.domain.projects.records import Artifact
from perdure.domain.projects.scope import Reach


class SqlArtifacts:
    """`ArtifactStore` over one table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_artifact(self, artifact: Artifact, *, limit: int | None = None) -> Artifact:
        same = select(artifacts).where(artifacts.c.id == artifact.id)
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _read(connection, same)
            if known:
                return known[0]
            await require_room(
                connection, artifacts, artifact.belongs, limit=limit, what="artifacts"
            )
            await connection.execute(self._database.insert(artifacts).values(columns_of(artifact)))
            return artifact

    async def artifact(self, artifact: str, *, reach: Reach) -> Artifact | None:
        query = select(artifacts).where(artifacts.c.id == artifact, within(artifacts, reach))
        found = await self._found(query)
        return found[0] if found else None

    async def artifacts(
        self, *, reach: Reach, kind: str | None = None, limit: int = 100
    ) -> Sequence[Artifact]:
        query = select(artifacts).where(within(artifacts, reach))
        if kind is not None:
            query = query.where(artifacts.c.kind == kind)
        newest = query.order_by(artifacts.c.created_at.desc(), artifacts.c.id)
        return await self._found(newest.limit(limit))

    async def artifacts_of_run(self, run: str) -> Sequence[Artifact]:
        query = select(artifacts).where(artifacts.c.run == run)
        return await self._found(query.order_by(artifacts.c.created_at, artifacts.c.id))

    async def _found(self, query: Select[tuple[object, ...]]) -> list[Artifact]:
        async with self._database.read() as connection:
            return await _read(connection, query)


async def _read(connection: AsyncConnection, query: Select[tuple[object, ...]]) -> list[Artifact]:
    rows = await connection.execute(query)
    return [Artifact.model_validate(fields_of(row)) for row in rows.mappings()]
