"""The protocols between the loops and the outside; adapters implement them, tests share suites."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

from perdure.domain.evaluation.checks import ActivityCheck, ActivityVerdict
from perdure.domain.evaluation.rubric import PartKind, Rubric
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.installation.workspace_use import WorkspaceUse
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.llm.transcript import Link, Message, ToolOutcome, TranscriptRef
from perdure.domain.llm.usage import Usage
from perdure.domain.projects.ports import ArtifactStore as ArtifactStore
from perdure.domain.projects.ports import ProjectStore as ProjectStore
from perdure.domain.projects.ports import SessionStore as SessionStore
from perdure.domain.projects.ports import TodoStore as TodoStore
from perdure.domain.run.hooks import Adapted, EndFacts, IterationFacts, WantedHook
from perdure.domain.run.live_text_port import LiveTexts as LiveTexts
from perdure.domain.run.status import RunWords, StoredRun
from perdure.domain.tools.definitions import (
    AccessClass,
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)
from perdure.domain.tools.mcp_servers import PinnedServer, ServerSpec

if TYPE_CHECKING:  # imported only for types, so that commands start without it
    from perdure.domain.retention.erasure import Tombstone


class BlobStore(Protocol):
    """Content-addressed bytes. Equal content has one address; a blob is never changed."""

    async def put(self, data: bytes) -> str:
        """Store `data` durably and return its address."""
        ...

    async def put_text(self, text: str) -> BlobRef:
        """Store UTF-8 text and return a reference that carries its size in bytes and tokens."""
        ...

    async def get(self, address: str) -> bytes:
        """Return the content, verified; raises `NotFound` or `StoreError`."""
        ...

    async def get_text(self, address: str) -> str:
        """Return UTF-8 text; raises like `get`, and `InvalidInput` if it is none."""
        ...

    async def exists(self, address: str) -> bool:
        """Whether the address can be read."""
        ...

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        """Drop those that nobody wrote or renewed since (garbage collection alone).

        The time is compared in the delete itself, so a writer who puts the same content meanwhile
        keeps it. Returns the stored size of each blob that was dropped.
        """
        ...

    def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        """All addresses with size in bytes and time of last write."""
        ...


class TranscriptStore(Protocol):
    """The chain of messages over the blob store, with a cache of loaded chains."""

    async def append(
        self, head: TranscriptRef | None, messages: Sequence[Message]
    ) -> TranscriptRef:
        """Add one link behind `head` (None starts a transcript); same content gives same head."""
        ...

    async def load(self, head: str) -> tuple[Message, ...]:
        """All messages up to and including the link named `head`."""
        ...

    async def link(self, address: str) -> Link:
        """One link, with the address of the one before it."""
        ...

    def forget(self, head: str) -> None:
        """Drop a chain from memory that another one has replaced; its content stays."""
        ...


class RecordStore(Protocol):
    """Iteration records, run rows, cursors and small registries, keyed so that writes repeat."""

    async def installation(self) -> str:
        """This store's random id, made at first use; queues carry it."""
        ...

    async def workspace(self, path: str) -> str:
        """The id of a workspace folder (absolute path), made at first use; notes the use."""
        ...

    async def workspaces(self) -> dict[str, str]:
        """All registered workspaces: id to absolute path."""
        ...

    async def workspace_uses(self) -> list[WorkspaceUse]:
        """All registered workspaces, with who needs them."""
        ...

    async def put_run(self, run: StoredRun) -> None:
        """Insert or replace the row of a run (compared by id)."""
        ...

    async def claim_run(self, run: StoredRun, *, seen: StoredRun | None) -> bool:
        """Write the row of a start, unless somebody else wrote it since it was `seen`.

        None means that there was none, of this id or with this `start_key`; of several callers at
        once one succeeds.
        """
        ...

    async def run_of_key(self, start_key: str) -> StoredRun | None:
        """The run that a start with this digest of a key made."""
        ...

    async def reopen_run(self, run: StoredRun, *, ended_at: datetime) -> bool:
        """Replace the row of a run that ended then; of several callers at once one succeeds."""
        ...

    async def run(self, run: str) -> StoredRun | None:
        """One run by its exact id."""
        ...

    async def find_runs(
        self,
        *,
        prefix: str = "",
        limit: int = 100,
        offset: int = 0,
        roots: bool = False,
        until: datetime | None = None,
    ) -> list[StoredRun]:
        """Runs whose id starts with `prefix`, newest first, from `offset` on; or `roots` alone.

        With `until`, those that began at that moment or before.
        """
        ...

    async def words(self, ids: Sequence[str]) -> dict[str, RunWords]:
        """Goal and label of each of these runs that the store has."""
        ...

    async def start_times(self, ids: Sequence[str]) -> dict[str, datetime]:
        """When each of these runs began, of those that the store has."""
        ...

    async def runs(self, ids: Sequence[str]) -> list[StoredRun]:
        """Those of these runs that the store has, in any order."""
        ...

    async def open_runs(self) -> list[str]:
        """The ids of all runs that have not ended."""
        ...

    async def edit_run(self, run: str, *, goal: str, label: str | None, spec: str) -> None:
        """Replace what a person edited, and nothing else of the row."""
        ...

    async def edit_status(self, run: str, status: str) -> None:
        """Replace the status of an open run; that of one that has ended stays."""
        ...

    async def delete_run(self, run: str, *, stone: "Tombstone | None" = None) -> None:
        """Drop a run's row, records, artifacts, own todos and the key of its start.

        Its tombstone, if given, comes with the same transaction. What it spent stays in the
        journal, and what is to do for its project on the list.
        """
        ...

    async def put_record(self, run: str, index: int, record: str) -> None:
        """Write iteration record `index` (from 1) of a run as JSON text; a repeat replaces it."""
        ...

    async def drop_records(self, run: str, *, after: int) -> int:
        """Forget the records above an index.

        Returns:
            the tool calls in all records of the run that were ever dropped, so that a repeat gives
            the same.
        """
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


UsageSoFar = Callable[[], Usage]


def ignore_usage(_used: UsageSoFar) -> None:
    """The `on_answer` of callers that do not need the usage of an attempt in progress."""


class ModelClient(Protocol):
    """One family of models (Messages API, embedded, scripted)."""

    async def card(self, model: str) -> ModelProfile:
        """Facts about the model; raises `ModelError` kind `unknown_model`."""
        ...

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens where the provider can tell without a charge, else None."""
        ...

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Call the model, streaming. Raises `ModelError`.

        `on_text` gets text deltas. `on_answer` is called once, when the answer begins, with a
        function that tells what the attempt has used by then: a caller books it if it is lost.
        """
        ...


class Models(Protocol):
    """Finds the client of a model by its name."""

    def resolve(self, model: str) -> ModelClient:
        """The client that serves a model; raises `InvalidInput` naming the nearest known one."""
        ...


class ToolHost(Protocol):
    """Where tools live and run."""

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        """All tools of this host, by fully qualified name."""
        ...

    def mended(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The arguments of a call as its tool mends them; pure, often the same ones."""
        ...

    def output_of(self, outcome: ToolOutcome, value: JsonValue) -> ToolOutput:
        """What an activity gave, in the words and limits of every tool."""
        ...

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool inside its grant; failures are outputs, cancellation is passed on."""
        ...

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """What a call would meet and do, without doing it; before a person is asked about it."""
        ...


class PinnedServers(FrozenModel):
    """MCP servers as a run may use them, and the facts of their tools."""

    servers: tuple[PinnedServer, ...] = ()
    facts: tuple[ToolDefinition, ...] = ()


class ToolServers(Protocol):
    """The MCP servers that a worker allows."""

    def accesses(self, asked: Sequence[ServerSpec]) -> frozenset[AccessClass]:
        """What their tools may be able to do; raises `InvalidInput` for one not allowed here."""
        ...

    async def pin(self, asked: Sequence[ServerSpec], *, root: str) -> PinnedServers:
        """Their tools as they are now; raises `InvalidInput` when one cannot be asked."""
        ...


class MadeCatalog(Protocol):
    """Finds tools that were made at run time for runs that name them by hash."""

    async def facts(self, pinned: Mapping[str, str], *, root: str) -> tuple[ToolDefinition, ...]:
        """The tools of these names and hashes, for a run in the tree of `root`.

        Raises `InvalidInput` naming every one that is not there, or that the run may not use.
        """
        ...


class CheckRunner(Protocol):
    """Runs the deterministic checks of a rubric."""

    def evaluate(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind,
        *,
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> tuple[DimensionScore, ...]:
        """Score every dimension that is a check; blocking, bounded in time."""
        ...

    def activities(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind,
        *,
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> tuple[ActivityCheck, ...]:
        """The checks that the loop schedules as foreign activities; all others have their score."""
        ...

    def judged(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind,
        *,
        verdicts: Mapping[str, ActivityVerdict],
    ) -> tuple[DimensionScore, ...]:
        """The scores of the dimensions that such activities gave verdicts on."""
        ...


class HookRunner(Protocol):
    """Calls the hooks that a worker serves."""

    def problems(self, wanted: Mapping[str, WantedHook]) -> dict[str, str]:
        """Why hooks of a task cannot be called, by their place in the task."""
        ...

    async def run(self, hook: WantedHook, facts: IterationFacts | EndFacts) -> Adapted:
        """Call a hook; raises `HookFailed` or `InvalidInput`."""
        ...


class Notifier(Protocol):
    """Tells people that a gate waits for them."""

    async def notify(self, event: dict[str, JsonValue]) -> bool:
        """Deliver one notice; False when no channel is configured."""
        ...


class Endpoints(FrozenModel):
    """Where the services of an installation answer."""

    temporal_address: str
    namespace: str
    home: str
    ui_url: str | None = None
    model_url: str | None = None
    api_url: str | None = None


class Runtime(Protocol):
    """The embedded services, as one supervisor keeps them."""

    async def ensure(self, on_progress: Callable[[str], None]) -> Endpoints:
        """Start what is missing and return where everything answers."""
        ...

    async def down(self) -> bool:
        """Stop the services; False when none ran."""
        ...
