"""Removes one of many working folders: an error with it must not keep the others."""

from perdure.domain.tools.workspaces import Workspaces
from perdure.event_log import get_logger

_log = get_logger(__name__)


async def try_release(workspaces: Workspaces, run: str) -> bool:
    """Remove the working folder of a run; False if that failed, which the log tells."""
    try:
        await workspaces.release(run=run)
    except Exception as error:
        _log.warning("folder_not_released", run=run, why=f"{type(error).__name__}: {error}")
        return False
    return True
