"""The metrics of the installation, for whoever collects them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from perdure.domain.run.figures import Figures

LookAtFigures: TypeAlias = Callable[[], Awaitable[Figures]]


class MetricsOutlet(Protocol):
    """Where metrics leave this process; the telemetry adapter is the real one."""

    async def exposition(self) -> tuple[bytes, str]:
        """All of them as they are now, as Prometheus reads them, with their media type."""
        ...

    def sending(self) -> AbstractAsyncContextManager[None]:
        """Send them by OTLP meanwhile, where that is wanted."""
        ...
