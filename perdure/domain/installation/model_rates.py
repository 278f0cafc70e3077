"""How often models may be called: rates by pattern, each held by a queue of its own.

A limit that the workers keep would be multiplied by their number. The server keeps the limit of a
queue for all workers together, so the calls of the models that share a limit share a queue.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from perdure.domain.foundation.names import models_queue

ModelRates = Mapping[str, float | None]
QueuesOf = Callable[[Sequence[str]], dict[str, str]]
SLUG_CHARACTERS = 40
_OTHERS = re.compile(r"[^a-z0-9]+")


def no_queues(_models: Sequence[str]) -> dict[str, str]:
    """Where no model is limited by itself."""
    return {}


def pattern_of(model: str, rates: ModelRates) -> str | None:
    """The pattern whose rate a model is called at: its own name, else the longest that fits."""
    # Not `fnmatch`, which ignores case on some systems: all must choose the same queue.
    fitting = [pattern for pattern in rates if fnmatchcase(model, pattern)]
    return max(fitting, key=lambda one: (one == model, len(one), one), default=None)


def queue_of_rate(installation: str, pattern: str) -> str:
    """The queue of the calls that share the rate of a pattern."""
    slug = _OTHERS.sub("-", pattern.lower()).strip("-")[:SLUG_CHARACTERS].rstrip("-")
    # Patterns that differ in other characters alone are different queues.
    mark = hashlib.sha256(pattern.encode()).hexdigest()[:6]
    return "-".join([models_queue(installation), *([slug] if slug else []), mark])


def queues_of(models: Sequence[str], rates: ModelRates, *, installation: str) -> dict[str, str]:
    """The queue of each model that has a rate; the others are called on the usual one."""
    found = {model: pattern_of(model, rates) for model in models}
    return {
        model: queue_of_rate(installation, pattern)
        for model, pattern in found.items()
        if pattern is not None
    }
