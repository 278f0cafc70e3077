"""The protocols between the loops and the outside; adapters implement them, tests share suites."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from pydantic import JsonValue

from perdure.domain.access import AccessStore as AccessStore
from perdure.domain.base import Frozen
from perdure.domain.evaluation import DimensionScore
from perdure.domain.memory.store import MemoryStore as MemoryStore
from perdure.domain.models import ModelCard, ModelReply, ModelRequest
from perdure.domain.projects.stores import ArtifactStore as ArtifactStore
from perdure.domain.projects.stores import ProjectStore as ProjectStore
from perdure.domain.projects.stores import SessionStore as SessionStore
from perdure.domain.projects.stores import TodoStore as TodoStore
from perdure.domain.refs import Ref
from perdure.domain.rubric import PartKind, Rubric
from perdure.domain.tools import Grant, ToolEnvelope, ToolFact, ToolOutput
from perdure.domain.transcript import Head, Message
from perdure.domain.usage import Account, Usage
from perdure.domain.workspaces import Workspaces as Workspaces

AttemptState = Literal["started", "answered", "failed", "lost", "duplicate"]


class BlobStore(Protocol):
    """Content-addressed bytes. Equal content has one address; a blob is never changed."""

    async def put(self, data: bytes) -> str:
        """Store `data` durably and return its address."""
        ...

    async def put_text(self, text: str) -> Ref:
        """Store UTF-8 text and return a reference that carries its size in bytes and tokens."""
        ...

    async def get(self, address: str) -> bytes:
        """Return the content, verified; raises `NotFound` or `StoreError`."""
        ...

    async def get_text(self, address: str) -> str:
        """Return UTF-8 text."""
        ...

    async def exists(self, address: str) -> bool:
        """Whether the address can be read."""
        ...

    async def delete(self, addresses: Sequence[str]) -> int:
        """Drop blobs (garbage collection alone) and return the bytes that were freed."""
        ...

    def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        """All addresses with size in bytes and time of last write."""
        ...


class TranscriptStore(Protocol):
    """The chain of messages over the blob store, with a cache of loaded chains."""

    async def append(self, head: Head | None, messages: Sequence[Message]) -> Head:
        """Add one link behind `head` (None starts a transcript); same content gives same head."""
        ...

    async def load(self, head: str) -> tuple[Message, ...]:
        """All messages up to and including the link named `head`."""
        ...

    def forget(self, head: str) -> None:
        """Drop a chain from memory that another one has replaced; its content stays."""
        ...


class Attempt(Frozen):
    """One try of a logical call, as it is opened in the journal.

    `key` is `workflow_run_id/activity_id`; `execution` the workflow run id; `estimate` what is
    booked if the attempt is lost; `reservation_tokens`, `reservation_output_tokens` and
    `reservation_cost_usd` what all attempts of the key may use together, `reservation_attempts` how
    many there may be (None: no limit).
    """

    key: str
    attempt: int
    execution: str
    root: str
    run: str
    phase: str
    role: str
    iteration: int
    model: str
    request_hash: str
    estimate: Usage
    estimate_cost_usd: Decimal | None
    reservation_tokens: int | None = None
    reservation_cost_usd: Decimal | None = None
    reservation_attempts: int | None = None
    reservation_output_tokens: int | None = None


class Proceed(Frozen):
    """The attempt is open: call the provider."""

    type: Literal["proceed"]


class Replayed(Frozen):
    """The key was answered before: use this reply, call nobody."""

    type: Literal["replayed"]
    reply: str
    account: Account


class DoesNotFit(Frozen):
    """The attempts of the key would exceed its reservation: nothing was sent."""

    type: Literal["does_not_fit"]
    account: Account


class Sealed(Frozen):
    """This execution was closed for spending: nothing was sent."""

    type: Literal["sealed"]


Begin = Proceed | Replayed | DoesNotFit | Sealed


class AttemptRow(Frozen):
    """One row of the journal, for ledgers and people."""

    key: str
    attempt: int
    root: str
    run: str
    phase: str
    role: str
    iteration: int
    model: str
    state: AttemptState
    usage: Usage
    cost_usd: Decimal | None
    started_at: datetime
    seconds: float
    sent: bool = True


class Journal(Protocol):
    """Attempts and replies; the commit point of a model call is `answer`."""

    async def begin(self, attempt: Attempt) -> Begin:
        """Open an attempt in one transaction.

        Older open rows of the key become `lost` at their estimate. Raises `JournalMismatch` when
        the key holds a reply, or attempts, for another request hash.
        """
        ...

    async def answer(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        reply: str,
        seconds: float,
    ) -> bool:
        """Store row and reply in one transaction; False when another reply was first.

        The later reply is kept as a `duplicate` row: it was paid for, and is never used.
        """
        ...

    async def fail(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        seconds: float,
        lost: bool = False,
        sent: bool = True,
    ) -> None:
        """Close an attempt that failed, with what it used; `lost` books the estimate instead.

        One that was never sent keeps its row, and is no call in any sum.
        """
        ...

    async def account(self, key: str) -> Account:
        """The sum over all attempts of a key as they stand."""
        ...

    async def reconcile(self, key: str) -> Account:
        """Mark open rows of the key lost, and sum it."""
        ...

    async def seal_and_sum(self, execution: str) -> Account:
        """Refuse new attempts of this execution from now on, mark open ones lost, and sum it."""
        ...

    async def seal_tree(self, *, root: str, run: str) -> list[AttemptRow]:
        """Refuse new attempts of a run and of all below it from now on, and return their rows.

        Open attempts are marked lost; what was returned is never corrected.
        """
        ...

    async def rows(self, run: str) -> list[AttemptRow]:
        """All rows of a run (its workflow id), oldest first."""
        ...

    async def tree(self, *, root: str, run: str) -> list[AttemptRow]:
        """All rows of a run and of the runs below it in the tree of `root`, oldest first."""
        ...

    async def failing_models(self, *, since: datetime) -> set[str]:
        """Models whose newest attempt of any run began after `since` and failed."""
        ...

    async def replies(self, run: str) -> list[str]:
        """The addresses of all replies that a run's calls were answered with."""
        ...


class StoredRun(Frozen):
    """What the store knows of a run; `spec` and `state`, in which it ended, are addresses.

    `parent` is the run that it works for.
    """

    id: str
    kind: str
    goal: str
    label: str | None
    lifecycle: str
    outcome: str | None
    started_at: datetime
    ended_at: datetime | None = None
    result: str | None = None
    status: str | None = None
    spec: str | None = None
    state: str | None = None
    parent: str | None = None


class RecordStore(Protocol):
    """Iteration records, run rows, cursors and small registries, keyed so that writes repeat."""

    async def installation(self) -> str:
        """This store's random id, made at first use; queues carry it."""
        ...

    async def workspace(self, path: str) -> str:
        """The id of a workspace folder (absolute path), made at first use."""
        ...

    async def workspaces(self) -> dict[str, str]:
        """All registered workspaces: id to absolute path."""
        ...

    async def put_run(self, run: StoredRun) -> None:
        """Insert or replace the row of a run (compared by id)."""
        ...

    async def reopen_run(self, run: StoredRun, *, ended_at: datetime) -> bool:
        """Replace the row of a run that ended then; of several callers at once one succeeds."""
        ...

    async def run(self, run: str) -> StoredRun | None:
        """One run by its exact id."""
        ...

    async def find_runs(
        self, *, prefix: str = "", limit: int = 100, roots: bool = False
    ) -> list[StoredRun]:
        """Runs whose id starts with `prefix`, newest first; `roots` alone, where asked for."""
        ...

    async def delete_run(self, run: str) -> None:
        """Drop a run's row and records; what it spent stays in the journal."""
        ...

    async def put_record(self, run: str, index: int, record: str) -> None:
        """Write iteration record `index` (from 1) of a run as JSON text; a repeat replaces it."""
        ...

    async def records(self, run: str) -> list[str]:
        """All records of a run in order, as JSON text."""
        ...

    async def script_uses(self, run: str, prefix: str) -> dict[int, int]:
        """How many calls whose key starts with `prefix` took each entry, by entry index."""
        ...

    async def script_held(self, run: str, keys: Sequence[str]) -> dict[str, int]:
        """Which of these logical calls hold an entry; the first, should there be several."""
        ...

    async def take_script_entry(self, run: str, key: str, entry: int) -> None:
        """Note that the logical call `key` holds entry `entry`; a repeat changes nothing."""
        ...

    async def set_live_text(self, run: str, key: str, attempt: int, text: str) -> None:
        """Replace the text of the model call in progress; advisory, short-lived."""
        ...

    async def live_text(self, run: str) -> str | None:
        """The text of the model call in progress, or None."""
        ...

    async def clear_live_text(self, run: str) -> None:
        """Drop the row of live text."""
        ...


class ModelClient(Protocol):
    """One family of models (Messages API, embedded, scripted)."""

    async def card(self, model: str) -> ModelCard:
        """Facts about the model; raises `ModelError` kind `unknown_model`."""
        ...

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens where the provider can tell without a charge, else None."""
        ...

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], None]) -> ModelReply:
        """Call the model, streaming; `on_text` gets text deltas. Raises `ModelError`."""
        ...


class Models(Protocol):
    """Finds the client of a model by its name."""

    def resolve(self, model: str) -> ModelClient:
        """The client that serves a model; raises `InvalidInput` naming the nearest known one."""
        ...


class ToolHost(Protocol):
    """Where tools live and run."""

    async def catalog(self) -> tuple[ToolFact, ...]:
        """All tools of this host, by fully qualified name."""
        ...

    async def call(self, envelope: ToolEnvelope, grant: Grant) -> ToolOutput:
        """Run one tool inside its grant; failures are outputs, cancellation is passed on."""
        ...


class CheckRunner(Protocol):
    """Runs the deterministic checks of a rubric."""

    def evaluate(self, rubric: Rubric, output: str, parts: PartKind) -> tuple[DimensionScore, ...]:
        """Score every dimension that is a check; blocking, bounded in time."""
        ...


class PriceBook(Protocol):
    """What models cost."""

    def card(self, model: str) -> ModelCard | None:
        """The card of a model that the book knows, else None."""
        ...


class Notifier(Protocol):
    """Tells people that a gate waits for them."""

    async def notify(self, event: dict[str, JsonValue]) -> bool:
        """Deliver one notice; False when no channel is configured."""
        ...


class Endpoints(Frozen):
    """Where the services of an installation answer."""

    temporal_address: str
    namespace: str
    home: str
    ui_url: str | None = None
    model_url: str | None = None


class Runtime(Protocol):
    """The embedded services, as one supervisor keeps them."""

    async def ensure(self, on_progress: Callable[[str], None]) -> Endpoints:
        """Start what is missing and return where everything answers."""
        ...

    async def down(self) -> bool:
        """Stop the services; False when none ran."""
        ...
