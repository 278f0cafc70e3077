"""The standalone activity `ready`: says who answers on a queue."""

from temporalio import activity

from perdure.domain.names import READY_ACTIVITY
from perdure.domain.steps import ReadyReport


class Ready:
    """Answers the gateway's probe; each queue has its own instance."""

    def __init__(self, *, version: str, workspace: str | None) -> None:
        self._version = version
        self._workspace = workspace

    @activity.defn(name=READY_ACTIVITY)
    async def ready(self) -> ReadyReport:
        """Report version, queue and workspace folder."""
        return ReadyReport(
            version=self._version, queue=activity.info().task_queue, workspace=self._workspace
        )
