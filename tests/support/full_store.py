"""A full store: while a test says so, the database file may not take one page more."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event

NO_GROWTH = 1  # SQLite takes the size that the file has now where that is more
NO_LIMIT = 4_294_967_294


@contextmanager
def full_store() -> Generator["FullStore"]:
    """Stand between all databases of this process and their files."""
    store = FullStore()
    event.listen(Engine, "begin", store.limit)
    try:
        yield store
    finally:
        event.remove(Engine, "begin", store.limit)


class FullStore:
    """`full` may be switched at any time; each transaction begins with the limit of its moment."""

    def __init__(self) -> None:
        self.full = False

    def limit(self, connection: Connection) -> None:
        """Set the limit of a connection; it belongs to the connection, not to the file."""
        pages = NO_GROWTH if self.full else NO_LIMIT
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
