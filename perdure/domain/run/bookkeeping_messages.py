"""Requests and reports of the steps that keep what a run made, and that tell people."""

from datetime import datetime

from pydantic import Field, JsonValue

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.messages import Amend
from perdure.domain.tools.definitions import ToolDefinition
from perdure.domain.turns.records import IterationRecord


class SnapshotRequest(ActivityMessage):
    """Store the working folder's tree; at the end, also the patch from the base to the best."""

    run: str
    root: str
    patch_from: str | None = None
    patch_to: str | None = None


class SnapshotReport(ActivityMessage):
    """The tree's manifest, and the deliverable where one was asked for.

    `left_out` names the files that are not in the tree, each with why.
    """

    tree: BlobRef
    patch: BlobRef | None = None
    seconds: float = 0.0
    left_out: tuple[str, ...] = ()


class ReconcileRequest(ActivityMessage):
    """Sum the attempts of an activity that ended without a report."""

    activity_id: str


class KeepTermsRequest(ActivityMessage):
    """Store what people changed of an open run: its limits as they are now, and edits in order.

    With `spec`, the specification as it is now takes the place of the stored one.
    """

    run: str
    limits: BudgetLimits
    edits: tuple[Amend, ...] = ()
    spec: dict[str, JsonValue] | None = None


class FinishRequest(ActivityMessage):
    """Write the last records, the result and the last state of a run; repeats replace.

    `remembered`: memory keeps an event of it, under its `category`, for pattern mining. `output` is
    the address of the text that is wanted back, up to so many bytes of it as `inline` says.
    """

    run: str
    records: tuple[IterationRecord, ...] = ()
    result: str
    status: str | None = None
    outcome: str
    lifecycle: str
    ended_at: str
    category: str | None = None
    remembered: bool = False
    state: dict[str, JsonValue] | None = None
    output: str | None = None
    inline: int = 0


class FinishReport(ActivityMessage):
    """Whether the run's row was there to be closed, and the output; `excerpt`: its beginning."""

    stored: bool = True
    output: str | None = None
    excerpt: bool = False


class ServedModels(ActivityMessage):
    """What workers know of models that the submitter of a run may not know.

    `default` is what a run without a model uses there. `names` are known there beside those that
    everybody knows, whole or up to their first `:` or `/`; with `any` every name is the provider's
    to judge.
    """

    default: str = ""
    names: tuple[str, ...] = ()
    any: bool = False

    def serves(self, name: str) -> bool:
        """Whether the name means a model there."""
        starts = {name, name.partition(":")[0], name.partition("/")[0]}
        return self.any or not starts.isdisjoint(self.names)


class ServedPlugins(ActivityMessage):
    """What plugins and programs bring to workers, which whoever submits need not have.

    `tools` come without descriptions and parameters, which decide nothing before a run begins.
    """

    tools: tuple[ToolDefinition, ...] = ()
    checks: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class Served(FrozenModel):
    """What the workers say of themselves, for a specification that is not started yet."""

    models: ServedModels = ServedModels()
    plugins: ServedPlugins = ServedPlugins()


class NotifyRequest(ActivityMessage):
    """Tell people that a gate waits; older histories do not say since when (`opened_at`)."""

    run: str
    gate: str
    kind: str
    prompt: str
    choices: tuple[str, ...] = ()
    reminder: int = 0
    opened_at: datetime | None = Field(default=None, exclude_if=lambda at: at is None)


class NotifyReport(ActivityMessage):
    """Whether a channel took the notice."""

    delivered: bool = False


class ReadyReport(ActivityMessage):
    """Who answers on a queue.

    `lacks`: of the queue of models, which families (`claude`, `local`) cannot be called there, with
    why and what to do; `models`, what they know of models; `plugins`, what was brought to them.
    `hooks`: of a queue of tools, the kind of each hook that is served there, by name.
    """

    version: str
    queue: str
    workspace: str | None = None
    lacks: dict[str, str] = {}
    models: ServedModels = ServedModels()
    plugins: ServedPlugins = ServedPlugins()
    hooks: dict[str, str] = {}
