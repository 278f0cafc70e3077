"""The gateway's configuration, and the shapes of its answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol
from urllib.parse import quote

from perdure.domain.evaluation.outcomes import Lifecycle, Outcome
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import TASK_QUEUE, LoopKind
from perdure.domain.installation.open_limits import OpenLimits
from perdure.domain.run.bookkeeping_messages import Served, ServedModels
from perdure.domain.run.child_runs import names_below
from perdure.domain.run.control import Phase
from perdure.domain.run.fairness import fairness_key
from perdure.domain.run.gates import Gate
from perdure.domain.run.spec import Timing
from perdure.domain.specs import Spec as Spec

SettleRun = Callable[[Spec, str], Awaitable[Spec]]
# Whether somebody still waits for a start.
Wanted = Callable[[], Awaitable[bool]]
# Whether somebody may reach a run, by its id.
Reach = Callable[[str], Awaitable[bool]]
RUN_FAILED = "RunFailed"
LABEL_MARK = "sealed:"


class ResolveModels(Protocol):
    """Fills in the models that a specification leaves open, from what the workers report."""

    def __call__(self, spec: Spec, served: Served | None = None, /) -> Awaitable[Spec]: ...


def worker_command(folder: str | None) -> str:
    """The command that starts a worker; it serves every registered folder of its host."""
    where = f" on the host that has the folder {folder}" if folder else ""
    return f"`perdure worker`{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationInfo:
    """Facts about the installation.

    Args:
        address: the address of the Temporal server.
        namespace: the namespace of all runs.
        ui_url: the URL of Temporal's Web UI, or None.
        timing: the time limits that each run is started with.
        version: the version of the interface, which workers must be compatible with; empty skips
            the check.
        notifies: whether a channel is configured that tells people of gates.
        worker_command: returns the command that starts the worker of a workspace folder, or of no
            folder in particular (None). It follows "Start one with".
        digest: with an encryption key, makes the keyed digest that replaces a word which the server
            has to know. Ids then contain no words of goals.
        task_queue: the queue on which Temporal clients start runs with only a task.
        limits: how many runs may be open at once.
        rates: patterns of models with a rate limit, each of which has a queue of its own.
        deployment: the name under which workers register their builds, or None.
    """

    address: str
    namespace: str = "default"
    ui_url: str | None = None
    timing: Timing = field(default_factory=Timing)
    notifies: bool = False
    version: str = ""
    worker_command: Callable[[str | None], str] = worker_command
    digest: Callable[[str], str] | None = None
    task_queue: str = TASK_QUEUE
    limits: OpenLimits = field(default_factory=OpenLimits)
    rates: tuple[str, ...] = ()
    deployment: str | None = None

    def starting(self, folder: str | None) -> str:
        """What starts the worker of a folder; with a deployment, also what lets workers begin runs.

        It follows "Start one with".
        """
        command = self.worker_command(folder)
        if self.deployment is None:
            return command
        return (
            f"{command}; if workers are there, none of their builds may be current: "
            "`perdure deploy status`"
        )

    def marked(self, label: str | None) -> str | None:
        """The label in the form that the server stores."""
        if label is None or self.digest is None:
            return label
        return f"{LABEL_MARK}{self.digest(label)}"

    def fairness(self, tenant: str | None) -> str | None:
        """The fairness key of a tenant, which is its name at the server."""
        return fairness_key(self.marked(tenant))

    def web_url(self, run: str) -> str | None:
        """The URL of a run in Temporal's Web UI; None without a Web UI."""
        if self.ui_url is None:
            return None
        namespace, name = quote(self.namespace, safe=""), quote(run, safe="")
        return f"{self.ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{name}"

    def links(self, run: str) -> dict[str, str]:
        """Addresses of a run in other interfaces, by their names."""
        url = self.web_url(run)
        return {} if url is None else {"temporal": url}

    def words(self, goal: str) -> str:
        """The words of a goal that may enter an id."""
        return goal if self.digest is None else ""


NAMED_OUTAGE_S = 90.0
"""The `outage` of a named server: in a failover it moves to another place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long the gateway waits, in seconds.

    `patience` is the time for a worker that is there but busy. For `known` seconds, an answer of a
    worker also serves later starts. `busy` is how long a request waits for room at the server, and
    `outage` how long whoever follows a run waits for a server that is away.
    """

    ready: float = 5.0
    patience: float = 20.0
    known: float = 30.0
    query: float = 3.0
    update: float = 10.0
    poll_first: float = 0.25
    poll_last: float = 2.0
    busy: float = 60.0
    outage: float = 90.0


class QueueState(FrozenModel):
    """Whether somebody answers on a queue that a run needs; `cure` says what to do if not.

    `busy`: nobody answered in time, but workers fetched from it of late; `limit`: the rate
    that somebody set for it at the server. `unasked`: workers fetch from it, and this server cannot
    put a question to them. `lacks`: families of models that its
    workers cannot call, with why; `models`, what they know of models; `hooks`: the kind of
    each hook that they serve, by name.
    """

    queue: str
    serves: Literal["loops", "models", "tools"]
    workspace: str | None = None
    ready: bool = False
    busy: bool = False
    limit: str = ""
    unasked: bool = False
    lacks: dict[str, str] = {}
    models: ServedModels = ServedModels()
    hooks: dict[str, str] = {}
    version: str | None = None
    cure: str = ""

    @property
    def served(self) -> bool:
        """Whether a run may start on it: it is answered now, or has workers that fetch from it."""
        return self.ready or self.busy or self.unasked

    @property
    def found(self) -> str:
        """Describe who answered, in words."""
        if self.ready:
            return f"version {self.version} answers"
        if self.unasked:
            return "workers fetch from it; this server cannot ask them (no standalone activities)"
        none = "workers are busy: none answers" if self.busy else "no worker"
        return f"{none}; {self.limit}" if self.limit else none


RUNS_OF_A_PAGE = 500
"""At most; a list with a larger limit takes several pages."""


class RunFilter(FrozenModel):
    """Which runs to list; a None takes all. `cursor` comes from the page before.

    Root runs are listed; with `root`, all runs of that tree.
    """

    status: Lifecycle | Literal["cancelled"] | None = None
    kind: LoopKind | None = None
    label: str | None = None
    outcome: Outcome | None = None
    phase: Phase | None = None
    root: str | None = None
    limit: int = 50
    cursor: str | None = None


class RunRow(FrozenModel):
    """A run in a list.

    `trouble` says what keeps it from moving, as far as a list knows; `failing` that it is its own
    code, which fails in the worker again and again, and not that it waits.
    """

    id: str
    kind: str
    goal: str
    label: str | None = None
    lifecycle: str
    phase: str | None = None
    blocked_on: str | None = None
    outcome: str | None = None
    definition: str | None = None
    iteration: int | None = None
    score: float | None = None
    cost_usd: float | None = None
    parent: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    source: Literal["run", "store"] = "run"
    trouble: str | None = None
    failing: bool = False


class Repaired(FrozenModel):
    """What a repair did: where the run goes on, and which messages it could not take."""

    type: Literal["repaired"] = "repaired"
    run: str
    event: int
    sent_again: int = 0
    left_out: tuple[str, ...] = ()


class FailingRun(FrozenModel):
    """An open run whose code keeps failing: what was found, and what to do."""

    run: str
    found: str
    cure: str


class FailingRuns(FrozenModel):
    """Open runs whose code keeps failing, and how far was looked.

    `server_names_them` says that the server itself named those that have failed for a minute, so
    that only younger failures can be among the runs that were not looked at.
    """

    runs: tuple[FailingRun, ...] = ()
    open: int = 0
    looked_at: int = 0
    server_names_them: bool = True


class RunPage(FrozenModel):
    """One page of a list; `note` says what may be missing."""

    runs: tuple[RunRow, ...] = ()
    cursor: str | None = None
    note: str = ""


class UpkeepSchedule(FrozenModel):
    """Upkeep by the clock: how often, how many times it was done, the last time and the next."""

    id: str
    every_s: float | None = None
    paused: bool = False
    looks: int = 0
    created_at: datetime | None = None
    last_at: datetime | None = None
    next_at: datetime | None = None


class UpkeepOutcome(FrozenModel):
    """How upkeep by the clock went lately, as far as the server still knows.

    Args:
        succeeded_at: when the last one that did its work ended.
        failed: the workflow id of the newest one, if it failed, or fails and is tried again.
        why: its error.
        open: whether the newest one has not ended.
        unfetched: whether no worker takes the newest one, so that it is not at work.
        began_at: when the newest one began.
    """

    succeeded_at: datetime | None = None
    failed: str | None = None
    why: str = ""
    open: bool = False
    unfetched: bool = False
    began_at: datetime | None = None


class OpenGate(FrozenModel):
    """A question that waits, and the run that asks it."""

    run: str
    kind: str
    goal: str
    gate: Gate

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the root of its tree down to the run that asks; empty for a root."""
        return names_below(self.run)


class OpenGates(FrozenModel):
    """All open questions, oldest first; `unread` are waiting runs whose questions are not known.

    Their worker does not answer, or `reasons` says of one why its answer cannot be opened here.
    """

    gates: tuple[OpenGate, ...] = ()
    unread: tuple[str, ...] = ()
    reasons: dict[str, str] = {}


class BulkReport(FrozenModel):
    """What a verb on many runs did: ids it was taken by, and reasons of those that refused."""

    verb: str
    taken: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    note: str = ""

    @property
    def matched(self) -> int:
        """How many open runs were found."""
        return len(self.taken) + len(self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """One execution that the server keeps.

    `content` has the bytes of every value in its history and in the heartbeats of its steps.
    `busy_since` is when the oldest running step began: blobs that such a step has stored are named
    nowhere yet. `steps` are the keys of all steps that have not ended. `keys` are the ids of the
    encryption keys of its values. `upkeep` means that it is no run, but garbage collection or
    pattern mining.
    """

    run: str
    closed_at: datetime | None
    busy_since: datetime | None
    content: frozenset[bytes]
    steps: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    upkeep: bool = False

    @property
    def open(self) -> bool:
        return self.closed_at is None

    def may_work(self, *, since: datetime) -> bool:
        """Whether a step of it may still run, as it is open or closed after a moment.

        The server has the last steps of one that was terminated or reset for as long as it keeps
        it, although each of them ends at its next heartbeat.
        """
        return self.closed_at is None or self.closed_at >= since
