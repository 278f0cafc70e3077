"""Which workspace folders a worker serves: only those in use."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from perdure.domain.foundation.base import FrozenModel

# Long enough that who works in a folder finds its worker there, short enough that a machine with
# hundreds of folders keeps a few.
UNUSED_AFTER = timedelta(hours=1)


class WorkspaceUse(FrozenModel):
    """A registered folder and who needs it.

    Attributes:
        id: part of the queue's name.
        path: of the folder, absolute.
        used_at: when a run was last started or checked for it; None: unknown.
        busy: whether an open run works there, or one of which nobody knows where it works.
    """

    id: str
    path: str
    used_at: datetime | None = None
    busy: bool = False


def served(
    uses: Sequence[WorkspaceUse], *, now: datetime, exists: Callable[[str], bool]
) -> dict[str, str]:
    """The folders to serve, by id.

    The folder of an open run is served even if it is missing: the run may work in a copy, and its
    steps should fail with a message instead of waiting. Otherwise a missing folder is not served.
    """
    return {
        use.id: use.path for use in uses if use.busy or (_is_recent(use, now) and exists(use.path))
    }


def _is_recent(use: WorkspaceUse, now: datetime) -> bool:
    return use.used_at is None or now - use.used_at < UNUSED_AFTER
