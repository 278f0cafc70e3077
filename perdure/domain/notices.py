"""Steps that tell somebody something: people that a gate waits, callers that a worker is there."""

from perdure.domain.base import StepMessage


class NotifyRequest(StepMessage):
    """Tell people that a gate waits."""

    run: str
    gate: str
    kind: str
    prompt: str
    choices: tuple[str, ...] = ()
    reminder: int = 0


class NotifyReport(StepMessage):
    """Whether a channel took the notice."""

    delivered: bool = False


class ReadyReport(StepMessage):
    """Who answers on a queue.

    `lacks`: of the queue of models, which families (`claude`, `local`) cannot be called there, with
    why and what to do.
    """

    version: str
    queue: str
    workspace: str | None = None
    lacks: dict[str, str] = {}
