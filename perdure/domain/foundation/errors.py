"""The error tree; every leaf has a stable code that survives serialisation.

PerdureError
├── InvalidInput            invalid_input        exit 2   the caller's words are wrong
├── ServiceUnavailable      service_unavailable  exit 3   server, worker, model or store is away
│   ├── RuntimeUnavailable  runtime_unavailable           an embedded service does not start
│   ├── NoReadyWorker       no_ready_worker               nobody answers on a queue
│   ├── VersionsApart       versions_apart                client and workers do not go together
│   ├── NamespaceUnfit      namespace_unfit               it lacks Perdure's search attributes
│   └── ModelUnavailable    model_unavailable             no worker can call a model of the run
├── NotFound                not_found            exit 4
├── NotAllowed              not_allowed          exit 5   the run's state forbids it
│   ├── AlreadyBegun        already_begun                 a run of this id was there before
│   ├── Conflict            conflict                      the name is taken
│   ├── PreconditionRequired  precondition_required       which version is meant was not said
│   ├── VersionConflict     version_conflict              somebody else changed it meanwhile
│   ├── MonthSpent          month_spent                   a schedule's budget of the month is spent
│   └── NoRoom              no_room                       as many runs are open as may be
├── StoreError              store_error          exit 3   blobs or tables cannot be read or written
│   ├── StoreAway           store_away                    they will be, when the store is back
│   └── Unreadable          unreadable                    this version cannot read what is there
├── FolderGone              folder_gone                   the host lost a run's working folder
├── ModelError              see `perdure.domain.llm.errors`
└── ToolFailure             tool_error                    a tool refused or failed
"""

from collections.abc import Iterable
from typing import ClassVar

from perdure.domain.foundation.redaction import redacted

LOAD_PLUGIN = (
    "Install its package there, or name its file or module in the setting `plugins` (`--plugin`). "
    "Services that run already load it after `perdure down`."
)
"""What helps where a worker has not loaded what a task names."""


class PerdureError(Exception):
    """Base of all errors that Perdure raises on purpose; registered with every worker.

    Args:
        message: what happened, where, and the value found.
        cure: what to do next, one sentence.
    """

    code: ClassVar[str] = "perdure_error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, cure: str = "") -> None:
        # Foreign words in it may repeat credentials; here every error of ours becomes text.
        self.message = redacted(message)
        self.cure = cure
        super().__init__(f"{self.message} {cure}".strip())


class InvalidInput(PerdureError):
    """The caller's words are wrong; nothing was started.

    Args:
        message: as for every error; it names all problems.
        cure: likewise.
        problems: the same by place, for programs: pairs of a path and what is wrong there.
    """

    code = "invalid_input"
    exit_code = 2

    def __init__(
        self, message: str, *, cure: str = "", problems: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message, cure=cure)
        self.problems = tuple((place, redacted(words)) for place, words in problems)


class ServiceUnavailable(PerdureError):
    """A server, worker, model or store could not be reached or started."""

    code = "service_unavailable"
    exit_code = 3


class RuntimeUnavailable(ServiceUnavailable):
    """An embedded service does not start or does not answer."""

    code = "runtime_unavailable"


class NoReadyWorker(ServiceUnavailable):
    """Nobody answered the readiness probe of a queue."""

    code = "no_ready_worker"


class VersionsApart(ServiceUnavailable):
    """Client and workers are more than one minor version apart; the cure says what to upgrade."""

    code = "versions_apart"


class NamespaceUnfit(ServiceUnavailable):
    """The namespace lacks search attributes that every run carries; the cure is a command."""

    code = "namespace_unfit"


class ModelUnavailable(ServiceUnavailable):
    """The workers have no key for a model that a run needs, or have it not installed."""

    code = "model_unavailable"


class NotFound(PerdureError):
    """No run, gate, blob or file of that name."""

    code = "not_found"
    exit_code = 4


class NotAllowed(PerdureError):
    """The run's state forbids the verb."""

    code = "not_allowed"
    exit_code = 5


class AlreadyBegun(NotAllowed):
    """A run of that id ended or spent something before; it begins only once."""

    code = "already_begun"


class Conflict(NotAllowed):
    """Something of that name is there already."""

    code = "conflict"


class PreconditionRequired(NotAllowed):
    """A change needs the version that it is meant for, and none was given."""

    code = "precondition_required"


class VersionConflict(NotAllowed):
    """The version that a change is meant for is not the one that is there."""

    code = "version_conflict"


class MonthSpent(NotAllowed):
    """What a schedule's runs may spend in this month is spent, or held by those that are open."""

    code = "month_spent"


class NoRoom(NotAllowed):
    """As many runs are open as may be, and starts above that are refused."""

    code = "no_room"


class StoreError(PerdureError):
    """Blobs or tables cannot be read or written."""

    code = "store_error"
    exit_code = 3


class StoreAway(StoreError):
    """The store is away, full or locked: nothing is wrong with what was asked, and it heals."""

    code = "store_away"


class Unreadable(StoreError):
    """The store has it, and this version cannot read it: a newer one wrote it, or it is damaged."""

    code = "unreadable"


class FolderGone(PerdureError):
    """The working folder of a run is not on the host that had it."""

    code = "folder_gone"


class ToolFailure(PerdureError):
    """A tool refused its input or failed; the text is shown to the model.

    Args:
        message: what went wrong, for the model.
        reason: a short stable code (`timeout`, `not_found`, `refused`, `stale`, …).
    """

    code = "tool_error"

    def __init__(self, message: str, *, reason: str = "error") -> None:
        super().__init__(message)
        self.reason = reason
