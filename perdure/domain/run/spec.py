"""A run's specification: one model per kind, told apart by `kind`; and its workflow's input."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_serializer,
    field_validator,
    model_validator,
)

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.base import FrozenModel, WorkflowInput
from perdure.domain.foundation.plain_text import require_not_blank
from perdure.domain.foundation.retry_policies import (
    FAILOVER_AFTER_S,
    FAILOVER_ATTEMPTS,
    PROVIDER_ATTEMPTS,
)
from perdure.domain.foundation.spec_size_limits import size_problem
from perdure.domain.llm.call_settings import CallSettings
from perdure.domain.llm.requests import CacheLife
from perdure.domain.run.control import Control
from perdure.domain.run.events import Ring
from perdure.domain.run.fairness import Priority, Turn
from perdure.domain.run.gates import GateSettings
from perdure.domain.run.hooks import Hooks
from perdure.domain.turns.guidance import Said
from perdure.domain.turns.settings import AgentSettings, ToolsSpec

ModelChain = str | tuple[str, ...]
Upgrade = Literal["auto", "pinned"]
ROLES = (
    "executor",
    "evaluator",
    "planner",
    "learner",
    "manager",
    "worker",
    "critic",
    "repair",
    "recovery",
)


class ModelsSpec(FrozenModel):
    """Which model plays which role; a list is a chain with fallbacks, absent ones are executor.

    `pinned` forbids failover. `settings` say by role how its models are called; a stage without
    settings of its own has those of the executor.
    """

    executor: ModelChain | None = None
    evaluator: ModelChain | None = None
    planner: ModelChain | None = None
    learner: ModelChain | None = None
    manager: ModelChain | None = None
    worker: ModelChain | None = None
    critic: ModelChain | None = None
    repair: ModelChain | None = None
    recovery: ModelChain | None = None
    pinned: bool = False
    settings: dict[str, CallSettings] = {}

    def calls(self, role: str) -> CallSettings:
        """How the models of a role are called."""
        if role in self.settings:
            return self.settings[role]
        own = CallSettings()
        return own if role in ROLES else self.settings.get("executor", own)

    @property
    def cache_life(self) -> CacheLife:
        """The longest that a role asks its provider to keep prompts for."""
        return "1h" if any(one.cache == "1h" for one in self.settings.values()) else "5m"

    def chain(self, role: str) -> tuple[str, ...]:
        """The models of a role in order of preference; recovery has no default."""
        given: ModelChain | None = getattr(self, role)
        # Recovery is asked once all models of the executor have failed: they would fail again.
        if given is None and role != "recovery":
            given = self.executor
        names = (given,) if isinstance(given, str) else tuple(given or ())
        return names[:1] if self.pinned else names


# In the metadata of a loop that an agent started with a tool: the agent's run, and the topmost.
STARTED_BY, ROOT_RUN = "started_by", "root_run"


class Metadata(FrozenModel):
    """Free facts about a run; the label is searchable.

    Runs of one tenant share its part of the workers; without a tenant, those of one label do.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    label: str | None = None
    # Left out while unset: the digest that knows a repeated start is one of the JSON, and a new
    # field must not change it for old tasks.
    tenant: str | None = Field(default=None, exclude_if=lambda tenant: tenant is None)

    @field_validator("tenant", mode="before")
    @classmethod
    def _as_text(cls, tenant: object) -> object:
        # Before the field had a meaning it could be any value, numbers included.
        return str(tenant) if isinstance(tenant, int | float) else tenant

    @property
    def payer(self) -> str | None:
        """Whose share of the workers the run takes from."""
        return self.tenant or self.label


class CommonSpec(FrozenModel):
    """What every kind of run is told; `about` is for people who choose a task, no model sees it.

    `learn` starts a learning run at the end. Without one (None) memory still keeps what the run did
    and what its tools noted; with False it keeps nothing. Of runs that wait for workers, those of
    `priority` 1 go first and those of 5 last; the others have 3. Where workers of several versions
    serve side by side, `upgrade` says whether the run moves to the current version when it
    continues as new, or stays `pinned` to the one that it began with.
    """

    goal: Annotated[str, AfterValidator(require_not_blank)] = Field(min_length=1)
    about: str = ""
    context: dict[str, JsonValue] = {}
    category: str | None = None
    workspace: str | None = None
    models: ModelsSpec = ModelsSpec()
    tools: ToolsSpec = ToolsSpec()
    budget: BudgetLimits = BudgetLimits()
    recall: bool = True
    skills: tuple[str, ...] = ()
    learn: bool | None = True
    metadata: Metadata = Metadata()
    agent: AgentSettings = AgentSettings()
    gates: GateSettings = GateSettings()
    hooks: Hooks = Hooks()
    # Left out while unset, as the tenant is, so that the digest of a start stays the same.
    priority: Priority | None = Field(default=None, exclude_if=lambda priority: priority is None)
    upgrade: Upgrade = Field(default="auto", exclude_if=lambda upgrade: upgrade == "auto")

    @model_validator(mode="before")
    @classmethod
    def _of_a_size(cls, value: object) -> object:
        # Before all else, so that no other validator walks through what is too large.
        if isinstance(value, dict) and (why := size_problem(value)):
            raise ValueError(why)
        return value


class Timing(FrozenModel):
    """Figures of the installation that workflows need, in seconds; pinned at the start.

    A provider has so many `attempts` for a call; where another model can be asked instead, that
    one waits for `failover_attempts`, and `failover_after` the first failure at most.
    `inline_output` is how many bytes of its output a run returns beside the reference.
    """

    heartbeat: float = 10.0
    model_call: float = 600.0
    store: float = 20.0
    attempts: int = PROVIDER_ATTEMPTS
    failover_attempts: int = FAILOVER_ATTEMPTS
    failover_after: float = FAILOVER_AFTER_S
    tool_attempts: int = 3
    stop_grace: float = 5.0
    child_grace: float = 60.0
    roll_events: int = 2_000
    roll_bytes: int = 2 * 1024 * 1024
    roll_messages: int = 1_000
    inline_output: int = 16 * 1024


class Placement(FrozenModel):
    """Where a run lives: its queues, its workspace folder, and the installation's figures.

    A run that works for another has a `root` and a `parent`; it plays a `role`, as the `worker` of
    that name, its task in full is the blob `briefing`, and its working copy begins with the
    snapshot `tree`; what people `said` to the runs above holds in it too; where it is `managed`, a
    manager above answers what it asks. `version` is that of the interface that started the tree.
    An input written by hand has none, and its unknown fields are errors. If the installation has a
    key, `label_mark` replaces the label on the server: a keyed digest, since search attributes
    cannot be encrypted. `turn` orders its tasks among those of other runs.
    """

    loops: str
    models: str
    tools: str
    folder: str | None = None
    writable: bool = False
    timing: Timing = Timing()
    root: str = ""
    parent: str | None = None
    notifies: bool = False
    role: str = "executor"
    worker: str | None = None
    tree: str | None = None
    briefing: str | None = None
    said: tuple[Said, ...] = ()
    managed: bool = False
    version: str = ""
    label_mark: str | None = None
    turn: Turn | None = None


class Beforehand(FrozenModel):
    """What people said to a run before its task was read, and what they were told.

    `was_reset` where the run was under way, and was reset to the reading of its task.
    """

    control: Control
    ring: Ring
    was_reset: bool = Field(default=False, exclude_if=lambda was: not was)


class LoopInput(WorkflowInput):
    """Input of every loop workflow; `started_at` is set when the run continues as new.

    `beforehand` is there once, in the input of a run that was started with its task alone.
    `chain` is the first execution of the run, in the input of every later one. `made_at` is the
    time, by the clock of its host, at which a fork or a retry made the state.
    """

    model_config = ConfigDict(extra="forbid")

    run: str
    site: Placement
    started_at: datetime | None = None
    beforehand: Beforehand | None = Field(default=None, exclude_if=lambda said: said is None)
    chain: str | None = Field(default=None, exclude_if=lambda first: first is None)
    made_at: datetime | None = Field(default=None, exclude_if=lambda made: made is None)

    @property
    def belongs_to(self) -> str:
        """The id of the run."""
        return self.run

    @field_serializer("site", when_used="json")
    def _brief(self, site: Placement) -> dict[str, object]:
        # Absent values are left out, because continue-as-new writes this; figures stay, pinned.
        return site.model_dump(mode="json", exclude_none=True)
