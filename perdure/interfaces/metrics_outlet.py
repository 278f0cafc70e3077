"""The metrics of the installation for monitoring systems."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from perdure.domain.run.figures import Figures

LookAtFigures: TypeAlias = Callable[[], Awaitable[Figures]]


class MetricsOutlet(Protocol):
    """Where metrics leave this process; implemented by the telemetry adapter."""

    async def exposition(self) -> tuple[bytes, str]:
        """The current metrics in the format of Prometheus, with their media type."""
        ...

    def sending(self) -> AbstractAsyncContextManager[None]:
        """Send the metrics by OTLP while the context is open, if that is configured."""
        ...
