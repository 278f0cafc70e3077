"""Opens all stores of an installation over one database."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

from perdure.adapters.files.private import make_private
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.access import SqlAccess, SqlAudit
from perdure.adapters.stores.blobs import BlobBackend, VerifiedBlobStore
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells, Vault
from perdure.adapters.stores.file_blobs import FileShelf
from perdure.adapters.stores.generated_tools import SqlMadeTools
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.ledger import SqlLedger
from perdure.adapters.stores.memory import SqlMemory
from perdure.adapters.stores.moved_blobs import MovedBlobs, UntoldObjects
from perdure.adapters.stores.object_blobs import ObjectShelf
from perdure.adapters.stores.projects import SqlArtifacts, SqlProjects, SqlTodos
from perdure.adapters.stores.records import SqlRecords
from perdure.adapters.stores.sql_blobs import TableShelf
from perdure.adapters.stores.transcripts import LinkedTranscripts
from perdure.adapters.temporal.encryption_keys import encryption_keys as keys_of
from perdure.domain.budget.journal import Journal
from perdure.domain.budget.spend_report import Ledger
from perdure.domain.evaluation.judge_cache import VerdictStore
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value
from perdure.domain.generated_tools.record import MadeToolStore
from perdure.domain.installation.access import AccessStore
from perdure.domain.installation.blob_place import BlobPlace
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore, LiveTexts, RecordStore, TranscriptStore
from perdure.domain.projects.ports import ArtifactStore, ProjectStore, SessionStore, TodoStore
from perdure.domain.run.audit import AuditStore

if TYPE_CHECKING:  # few commands need it, and importing it takes time
    from perdure.domain.experiments.store import ExperimentStore
    from perdure.domain.retention.erasure import ErasureStore
    from perdure.domain.run.figures import StoreFigures
    from perdure.domain.run.notices import NoticeStore
    from perdure.domain.schedules.store import ScheduleStore

DATABASE_FILE = "perdure.sqlite"
BLOBS_FOLDER = "blobs"


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of an installation: content, spend and records."""

    blobs: BlobStore
    transcripts: TranscriptStore
    journal: Journal
    ledger: Callable[[], Ledger]
    figures: "Callable[[], StoreFigures]"
    experiments: "Callable[[], ExperimentStore]"
    schedules: "Callable[[], ScheduleStore]"
    erasure: "Callable[[], ErasureStore]"
    records: RecordStore
    live: "Callable[[], LiveTexts]"
    verdicts: VerdictStore
    memory: MemoryStore
    made_tools: MadeToolStore
    access: AccessStore
    audit: AuditStore
    notices: "Callable[[], NoticeStore]"
    sessions: SessionStore
    projects: ProjectStore
    artifacts: ArtifactStore
    todos: TodoStore
    database: Database
    sealed: VerifiedBlobStore
    objects: MovedBlobs | None = None

    @property
    def digest(self) -> Callable[[str], str] | None:
        """Makes keyed digests of words; None if the store has no key."""
        return self.database.cells.digest if self.database.cells.sealing else None

    async def close(self) -> None:
        """Close connections and files; a second call does nothing."""
        await self.database.close()


@asynccontextmanager
async def stores_of(settings: Settings) -> AsyncGenerator[Stores]:
    """The stores that settings name, open within the block; raises what `open_stores` raises."""
    opened = await open_stores(
        settings.home,
        settings.secret("database_url"),
        encryption_keys=keys_of(settings),
        blobs=settings.blobs,
    )
    try:
        yield opened
    finally:
        await opened.close()


async def open_stores(
    home: Path,
    database_url: str | None = None,
    *,
    encryption_keys: Sequence[bytes] = (),
    blobs: str | None = None,
) -> Stores:
    """Open the stores; make or migrate them if needed.

    With SQLite, blobs are files below `home`; with PostgreSQL, which several hosts can share, they
    are rows. If `blobs` names an object store, they go there; it is contacted at first use.

    Args:
        home: the installation's folder (`PERDURE_HOME`).
        database_url: an SQLite or PostgreSQL URL; None means `perdure.sqlite` in `home`.
        encryption_keys: 32 bytes each. The first one encrypts content at rest, in blobs and in
            rows. Without keys, content stays plain.
        blobs: where new blobs go (`PERDURE_BLOBS`), such as `s3://bucket/prefix`.

    Raises:
        InvalidInput: a URL or the key is unusable, or the library for object stores is missing.
        StoreError: the folder or the database cannot be opened.
    """
    vault = Vault(*encryption_keys)
    await asyncio.to_thread(make_private, home)
    url = database_url or _default_url(home)
    database = await Database.open(url, cells=Cells(*encryption_keys))
    records, projects = SqlRecords(database), SqlProjects(database)
    try:
        shelf = await _shelf(home, database)
        moved = None if blobs is None else _moved(blobs, database, records, shelf)
    except BaseException:
        await database.close()
        raise
    verified = VerifiedBlobStore(moved or UntoldObjects(database, shelf), vault)
    return Stores(
        blobs=verified,
        transcripts=LinkedTranscripts(verified),
        journal=SqlJournal(database),
        ledger=partial(SqlLedger, database),
        figures=partial(_figures, database),
        experiments=partial(_experiments, database),
        schedules=partial(_schedules, database),
        erasure=partial(_erasure, database),
        records=records,
        live=partial(_live, database),
        verdicts=records,
        memory=SqlMemory(database),
        made_tools=SqlMadeTools(database),
        access=SqlAccess(database),
        audit=SqlAudit(database),
        notices=partial(_notices, database),
        sessions=projects,
        projects=projects,
        artifacts=SqlArtifacts(database),
        todos=SqlTodos(database),
        database=database,
        sealed=verified,
        objects=moved,
    )


def _figures(database: Database) -> "StoreFigures":
    from perdure.adapters.stores.figures import SqlFigures

    return SqlFigures(database)


def _experiments(database: Database) -> "ExperimentStore":
    from perdure.adapters.stores.experiments import SqlExperiments

    return SqlExperiments(database)


def _schedules(database: Database) -> "ScheduleStore":
    from perdure.adapters.stores.schedules import SqlSchedules

    return SqlSchedules(database)


def _live(database: Database) -> "LiveTexts":
    from perdure.adapters.stores.live_texts import SqlLiveTexts

    return SqlLiveTexts(database)


def _notices(database: Database) -> "NoticeStore":
    from perdure.adapters.stores.notices import SqlNotices

    return SqlNotices(database)


def _erasure(database: Database) -> "ErasureStore":
    from perdure.adapters.stores.erasure import SqlErasure

    return SqlErasure(database)


async def _shelf(home: Path, database: Database) -> BlobBackend:
    if database.dialect_name != "sqlite":
        return TableShelf(database)
    shelf = FileShelf(home / BLOBS_FOLDER)
    await asyncio.to_thread(shelf.open)
    return shelf


def _place(url: str) -> BlobPlace:
    try:
        return BlobPlace.parse(url)
    except ValueError as error:
        raise InvalidInput(
            f"PERDURE_BLOBS: found {format_value(url)}; allowed: {error}.",
            cure="Correct or unset it.",
        ) from None


def _moved(url: str, database: Database, records: SqlRecords, former: BlobBackend) -> MovedBlobs:
    place = _place(url)
    try:
        from perdure.adapters.stores.objects import Objects
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"PERDURE_BLOBS names {url}, but the library for object stores is not installed"
            f" ({error}).",
            cure="Install it: pip install 'perdure[objects]'.",
        ) from error
    objects = ObjectShelf(database, Objects(place), installation=records.installation, now=utc_now)
    return MovedBlobs(objects, former)


def _default_url(home: Path) -> URL:
    # Built from parts, so that `?` and `%` in the path are not read as URL syntax.
    return URL.create("sqlite", database=str(home / DATABASE_FILE))
