"""Whose turn it is where many runs wait: a run's share of the workers, and its priority."""

import hashlib
import re
from typing import Annotated

from pydantic import Field

from perdure.domain.foundation.base import FrozenModel

FAIRNESS_BYTES = 64  # the server refuses longer keys
_SEARCHED = re.compile(r"[^'\"\\`\x00-\x1f]+")
Priority = Annotated[int, Field(ge=1, le=5)]


class Turn(FrozenModel):
    """How the server orders a run's tasks among those of others.

    Args:
        priority: 1 goes before 5; None: 3.
        fairness: runs of one key share its part of the workers; None: of no key.
        by_step: each step names both, since the run's own execution was started without them.
    """

    priority: int | None = None
    fairness: str | None = None
    by_step: bool = False


def fairness_key(tenant: str | None) -> str | None:
    """The key of a tenant; a digest stands for one that the server would refuse as too long."""
    if not tenant:
        return None
    told = tenant.encode()
    return tenant if len(told) <= FAIRNESS_BYTES else hashlib.sha256(told).hexdigest()


def searched_tenant(key: str | None) -> str | None:
    """The tenant of a fairness key as runs are searched by it.

    A digest stands for one that a query cannot name, as it has quotes or control characters.
    """
    if key is None or _SEARCHED.fullmatch(key):
        return key
    return hashlib.sha256(key.encode()).hexdigest()
