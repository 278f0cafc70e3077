"""Replies in the journal: one for each key, read and written in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, delete, insert, select, update

from perdure.adapters.stores.attempts import StoredAttempt, lose, numbered
from perdure.adapters.stores.tables import attempts, replies
from perdure.domain.budget.journal import Attempt

_REPLY = select(replies).where(replies.c.key == bindparam("its_key"))
_TAKE = insert(replies)


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The reply of a key: its attempt, the hash of the request, and the text."""

    attempt: int
    opening: int
    request_hash: str
    text: str


def reply_of(connection: Connection, key: str) -> StoredReply | None:
    found = connection.execute(_REPLY, {"its_key": key}).mappings()
    row = found.first()
    if row is None:
        return None
    return StoredReply(
        attempt=row["attempt"],
        opening=row["opening"],
        request_hash=row["request_hash"],
        text=row["reply"],
    )


def for_this(
    connection: Connection, attempt: Attempt, reply: StoredReply | None
) -> StoredReply | None:
    """The reply of a key, unless it answers another request than this attempt's.

    Workers build the request, and another version may build it differently. Such a reply becomes a
    duplicate, and the model is called again.
    """
    if reply is None or reply.request_hash == attempt.request_hash:
        return reply
    # An older attempt that reports late must not discard the reply of a newer one.
    if reply.attempt >= attempt.attempt:
        return reply
    connection.execute(delete(replies).where(replies.c.key == attempt.key))
    connection.execute(
        update(attempts)
        .where(numbered(attempt.key, reply.attempt, reply.opening))
        .values(state="duplicate")
    )
    return None


def take(
    connection: Connection,
    attempt: Attempt,
    row: StoredAttempt,
    reply: str,
    rows: Sequence[StoredAttempt],
) -> None:
    """Make this the reply of its key, and book older attempts that are still open as lost."""
    taken = {
        "key": row.key,
        "attempt": row.attempt,
        "opening": row.opening,
        "request_hash": attempt.request_hash,
        "reply": reply,
    }
    connection.execute(_TAKE, taken)
    # Most calls have one attempt, and need no statement that finds nothing.
    if any(one.attempt < row.attempt for one in rows):
        older = and_(attempts.c.key == row.key, attempts.c.attempt < row.attempt)
        lose(connection, older)
