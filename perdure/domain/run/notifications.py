"""Steps that tell somebody something: people that a gate waits, callers that a worker is there."""

from perdure.domain.foundation.base import ActivityMessage


class ServedModels(ActivityMessage):
    """What workers know of models, which whoever submits a run need not know.

    `default` is what a run without a model uses there. `names` are known there beside those that
    everybody knows; with `any` every name is the provider's to judge.
    """

    default: str = ""
    names: tuple[str, ...] = ()
    any: bool = False

    def serves(self, name: str) -> bool:
        """Whether the name means a model there."""
        return self.any or name in self.names or name.partition(":")[0] in self.names


class NotifyRequest(ActivityMessage):
    """Tell people that a gate waits."""

    run: str
    gate: str
    kind: str
    prompt: str
    choices: tuple[str, ...] = ()
    reminder: int = 0


class NotifyReport(ActivityMessage):
    """Whether a channel took the notice."""

    delivered: bool = False


class ReadyReport(ActivityMessage):
    """Who answers on a queue.

    `lacks`: of the queue of models, which families (`claude`, `local`) cannot be called there, with
    why and what to do; `models`, what they know of models.
    """

    version: str
    queue: str
    workspace: str | None = None
    lacks: dict[str, str] = {}
    models: ServedModels = ServedModels()
