"""Opens all stores of an installation over one database."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from perdure.adapters.files.private import make_private
from perdure.adapters.stores.access import SqlAccess, SqlAudit
from perdure.adapters.stores.blobs import BlobBackend, VerifiedBlobStore
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells, Vault
from perdure.adapters.stores.file_blobs import FileShelf
from perdure.adapters.stores.generated_tools import SqlMadeTools
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.memory import SqlMemory
from perdure.adapters.stores.projects import SqlArtifacts, SqlProjects, SqlTodos
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.sql_blobs import TableShelf
from perdure.adapters.stores.transcripts import LinkedTranscripts
from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.judge_cache import VerdictStore
from perdure.domain.generated_tools.record import MadeToolStore
from perdure.domain.installation.access import AccessStore
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore, RecordStore, TranscriptStore
from perdure.domain.projects.ports import ArtifactStore, ProjectStore, SessionStore, TodoStore
from perdure.domain.run.audit import AuditStore

DATABASE_FILE = "perdure.sqlite"
BLOBS_FOLDER = "blobs"


@dataclass(frozen=True, slots=True)
class Stores:
    """What keeps an installation's content, spend and records."""

    blobs: BlobStore
    transcripts: TranscriptStore
    journal: Journal
    records: RecordStore
    verdicts: VerdictStore
    memory: MemoryStore
    made_tools: MadeToolStore
    access: AccessStore
    audit: AuditStore
    sessions: SessionStore
    projects: ProjectStore
    artifacts: ArtifactStore
    todos: TodoStore
    database: Database

    @property
    def digest(self) -> Callable[[str], str] | None:
        """Where the store has a key, makes the keyed digest of a word."""
        return self.database.cells.digest if self.database.cells.sealing else None

    async def close(self) -> None:
        """Give back connections and files; a second call does nothing."""
        await self.database.close()


async def open_stores(
    home: Path, database_url: str | None = None, *, encryption_keys: Sequence[bytes] = ()
) -> Stores:
    """Open (and make or migrate, where needed) the stores.

    Blobs are files below `home` beside an SQLite database, and rows in PostgreSQL, which hosts
    share.

    Args:
        home: the installation's folder (`PERDURE_HOME`).
        database_url: an SQLite or PostgreSQL URL; None means `perdure.sqlite` in `home`.
        encryption_keys: 32 bytes each, the first encrypts content at rest, in blobs and in
            rows; none leaves it plain.

    Raises:
        InvalidInput: the URL or the key is unusable.
        StoreError: the folder or the database cannot be opened.
    """
    vault = Vault(*encryption_keys)
    await asyncio.to_thread(make_private, home)
    database = await Database.open(
        database_url or _default_url(home), cells=Cells(*encryption_keys)
    )
    try:
        shelf = await _shelf(home, database)
    except BaseException:
        await database.close()
        raise
    blobs = VerifiedBlobStore(shelf, vault)
    return Stores(
        blobs=blobs,
        transcripts=LinkedTranscripts(blobs),
        journal=SqlJournal(database),
        records=SqlRecords(database),
        verdicts=SqlRecords(database),
        memory=SqlMemory(database),
        made_tools=SqlMadeTools(database),
        access=SqlAccess(database),
        audit=SqlAudit(database),
        sessions=SqlProjects(database),
        projects=SqlProjects(database),
        artifacts=SqlArtifacts(database),
        todos=SqlTodos(database),
        database=database,
    )


async def _shelf(home: Path, database: Database) -> BlobBackend:
    if database.dialect_name != "sqlite":
        return TableShelf(database, now=utc_now)
    shelf = FileShelf(home / BLOBS_FOLDER)
    await asyncio.to_thread(shelf.open)
    return shelf


def _default_url(home: Path) -> URL:
    # Built by parts: a `?` or `%` in the path must not be read as part of the URL.
    return URL.create("sqlite", database=str(home / DATABASE_FILE))
