"""Tokens, starts, the signing key and the audit trail as rows.

The port is `perdure.domain.installation.access.AccessStore`.
"""

import secrets
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import and_, delete, exists, func, insert, or_, select, type_coerce, update

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import (
    UtcTime,
    api_requesters,
    api_starts,
    api_tokens,
    audit,
    ended_sessions,
    signing_keys,
)
from perdure.domain.installation.access import ApiToken, IdempotencyRecord, digest_of, scopes_of
from perdure.domain.run.audit import AuditEntry, AuditFilter

KEY_BYTES = 32


class SqlAccess:
    """`AccessStore` over five small tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_token(self, token: ApiToken) -> None:
        values = token.model_dump() | {
            "scopes": " ".join(token.scopes),
            "runs": "\n".join(token.runs),
            "folders": "\n".join(token.folders),
        }
        await self._database.change(self._database.insert(api_tokens).values(values))

    async def token(self, token_id: str) -> ApiToken | None:
        query = select(api_tokens).where(api_tokens.c.id == token_id)
        row = await self._database.row(query)
        return None if row is None else _token(dict(row))

    async def session_token(self, token_id: str, *, session: str) -> ApiToken | None:
        ended = exists().where(ended_sessions.c.id == session)
        query = select(api_tokens).where(api_tokens.c.id == token_id, ~ended)
        row = await self._database.row(query)
        return None if row is None else _token(dict(row))

    async def end_session(self, session: str, *, until: datetime, now: datetime) -> None:
        new = self._database.insert(ended_sessions).values(id=session, until=until)
        # A session that is over by itself needs no row any more, so the table stays small.
        over = delete(ended_sessions).where(ended_sessions.c.until <= now)
        async with self._database.write() as connection:
            await connection.execute(over)
            await connection.execute(new.on_conflict_do_nothing())

    async def tokens(self) -> list[ApiToken]:
        query = select(api_tokens).order_by(api_tokens.c.created_at, api_tokens.c.id)
        return [_token(dict(row)) for row in await self._database.rows(query)]

    async def rotate_token(self, token: ApiToken, *, instead_of: str) -> bool:
        # Of two rotations at once one is refused: its new token would never work.
        same = (api_tokens.c.id == token.id, api_tokens.c.digest == instead_of)
        kept = {"name", "digest", "expires_at", "former_digest", "former_until"}
        new = token.model_dump(include=kept) | {"scopes": " ".join(token.scopes)}
        change = update(api_tokens).where(*same, api_tokens.c.revoked_at.is_(None)).values(new)
        return await self._database.change(change) == 1

    async def revoke_token(self, token_id: str, *, at: datetime) -> bool:
        usable = (api_tokens.c.id == token_id, api_tokens.c.revoked_at.is_(None))
        change = update(api_tokens).where(*usable).values(revoked_at=at)
        return await self._database.change(change) == 1

    async def note_use(self, token_id: str, *, at: datetime) -> None:
        change = update(api_tokens).where(api_tokens.c.id == token_id).values(last_used_at=at)
        await self._database.change(change)

    async def claim_start(self, wanted: IdempotencyRecord) -> IdempotencyRecord:
        # A key may be words of a customer, and is only compared: its digest is enough.
        key = None if wanted.key is None else digest_of(wanted.key)
        new = self._database.insert(api_starts).values(wanted.model_dump() | {"key": key})
        same = (api_starts.c.token == wanted.token, api_starts.c.key == key)
        async with self._database.write() as connection:
            # NULL keys never conflict. Of several inserts with one key, the first row counts.
            await connection.execute(new.on_conflict_do_nothing())
            if wanted.key is None:
                return wanted
            row = (await connection.execute(select(api_starts).where(*same))).mappings().one()
        return IdempotencyRecord.model_validate(dict(row))

    async def start_of_key(self, token_id: str, key: str) -> IdempotencyRecord | None:
        same = (api_starts.c.token == token_id, api_starts.c.key == digest_of(key))
        row = await self._database.row(select(api_starts).where(*same))
        return None if row is None else IdempotencyRecord.model_validate(dict(row))

    async def started_by(self, run: str) -> IdempotencyRecord | None:
        query = select(api_starts).where(api_starts.c.run == run)
        row = await self._database.row(query)
        return None if row is None else IdempotencyRecord.model_validate(dict(row))

    async def settle_start(self, claim: str, *, run: str | None, why: str) -> bool:
        change = update(api_starts).where(api_starts.c.run == claim)
        taken = select(api_starts.c.run).where(api_starts.c.run == run)
        async with self._database.write() as connection:
            # Another request may have asked for the same start, and `run` is the primary key.
            if run is not None and await connection.scalar(taken) is not None:
                return False
            await connection.execute(change.values(run=run or claim, why=why))
            return True

    async def forget_start(self, run: str) -> None:
        await self._database.change(delete(api_starts).where(api_starts.c.run == run))

    async def note_requester(self, source: str, token_id: str, *, at: datetime) -> None:
        new = self._database.insert(api_requesters).values(source=source, token=token_id, at=at)
        await self._database.change(new.on_conflict_do_nothing())

    async def requesters(self, sources: Collection[str]) -> frozenset[str]:
        query = select(api_requesters.c.token).where(api_requesters.c.source.in_(sources))
        return frozenset(await self._database.values(query))

    async def signing_key(self) -> bytes:
        query = select(signing_keys.c.key).where(signing_keys.c.slot == 1)
        known = await self._database.value(query)
        if known is not None:
            return bytes(known)
        made = self._database.insert(signing_keys).values(
            slot=1, key=secrets.token_bytes(KEY_BYTES)
        )
        async with self._database.write() as connection:
            await connection.execute(made.on_conflict_do_nothing())
            # Read it back: another process may have been first, and then its key counts.
            return bytes((await connection.execute(query)).scalar_one())


def _token(row: dict[str, object]) -> ApiToken:
    read = {
        "scopes": scopes_of(str(row["scopes"]).split()),
        "runs": _lines(row["runs"]),
        "folders": _lines(row["folders"]),
    }
    return ApiToken.model_validate({**row, **read})


def _lines(text: object) -> tuple[str, ...]:
    return tuple(str(text).split("\n")) if text else ()


class SqlAudit:
    """`AuditStore` over one append-only table; the database refuses updates of its rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, entry: AuditEntry) -> None:
        await self._database.change(insert(audit).values(entry.model_dump()))

    async def entries(self, wanted: AuditFilter) -> list[AuditEntry]:
        row, later, same = audit, audit.alias("later"), audit.alias("same")
        earlier = (same.c.id == row.c.id, same.c.seq <= row.c.seq)
        began = select(func.min(same.c.at)).where(*earlier).scalar_subquery()
        count = select(func.sum(same.c.count)).where(*earlier).scalar_subquery()
        newer = exists().where(later.c.id == row.c.id, later.c.seq > row.c.seq)
        kept = [row.c[name] for name in ("id", "action", "outcome", "who", "run", "about")]
        query = select(
            *kept, row.c.last_at, type_coerce(began, UtcTime).label("at"), count.label("count")
        )
        for name in ("action", "outcome", "run", "who"):
            if (value := getattr(wanted, name)) is not None:
                query = query.where(row.c[name] == value)
        if wanted.since is not None:
            query = query.where(row.c.last_at >= wanted.since)
        # The trail as it stood at the first page: entries that move would come twice or never.
        if (place := wanted.place) is not None:
            newer = newer.where(later.c.seq <= place.mark)
            query = query.where(row.c.seq <= place.mark)
            if place.last_at is not None:
                equal = and_(row.c.last_at == place.last_at, row.c.id > place.id)
                query = query.where(or_(row.c.last_at < place.last_at, equal))
        query = query.where(~newer).order_by(row.c.last_at.desc(), row.c.id).limit(wanted.limit)
        rows = await self._database.rows(query)
        return [AuditEntry.model_validate(dict(found)) for found in rows]

    async def mark(self) -> int:
        return await self._database.value(select(func.max(audit.c.seq))) or 0

    async def forget(self, *, before: datetime) -> int:
        return await self._database.change(delete(audit).where(audit.c.last_at < before))
