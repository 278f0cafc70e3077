"""The standalone activity `ready`: tells the gateway which worker answers on a queue."""

from collections.abc import Callable, Mapping

from temporalio import activity

from perdure.domain.foundation.names import READY_ACTIVITY
from perdure.domain.run.bookkeeping_messages import ReadyReport, ServedModels, ServedPlugins


class Ready:
    """Answers the gateway's probe; each queue has its own instance.

    Args:
        version: of the product.
        workspace: the folder that the queue is for.
        lacks: families of models that cannot be called, with why.
        models: what this worker knows of models.
        plugins: what plugins and programs brought to it.
        hooks: what it serves, the kind by name.
    """

    def __init__(
        self,
        *,
        version: str,
        workspace: str | None,
        lacks: Callable[[], Mapping[str, str]] = dict,
        models: Callable[[], ServedModels] = ServedModels,
        plugins: ServedPlugins | None = None,
        hooks: Mapping[str, str] | None = None,
    ) -> None:
        self._version = version
        self._workspace = workspace
        self._lacks = lacks
        self._models = models
        self._plugins = plugins or ServedPlugins()
        self._hooks = dict(hooks or {})

    @activity.defn(name=READY_ACTIVITY)
    async def ready(self) -> ReadyReport:
        """Report version, queue and workspace folder."""
        return ReadyReport(
            version=self._version,
            queue=activity.info().task_queue,
            workspace=self._workspace,
            lacks=dict(self._lacks()),
            models=self._models(),
            plugins=self._plugins,
            hooks=self._hooks,
        )
