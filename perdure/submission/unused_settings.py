"""Settings that no loop of this version acts on: a person who sets one is told so."""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.foundation.problems import shown
from perdure.submission.layers import Fields, has, steps_of

_NO_ROLE = "no step of this kind of run calls this role"
_NO_WORKERS = "no step of this kind of run starts workers"
IDLE: Mapping[str, str] = {
    "budget.workers": _NO_WORKERS,
    "budget.depth": _NO_WORKERS,
    "models.manager": _NO_ROLE,
    "models.worker": _NO_ROLE,
    "models.critic": _NO_ROLE,
    "models.repair": _NO_ROLE,
}

AGENT_IDLE: Mapping[str, str] = {
    "skills": "an agent run is given skills with `recall: true` alone",
}
ROLES_IDLE: Mapping[str, str] = {
    "recall": "stages have the memory tools instead, each by its access",
    "skills": "stages have the skill tools instead, each by its access",
    "models.planner": "the stages of a definition have models of their own, or the executor's",
}
DELEGATION_IDLE: Mapping[str, str] = {
    "models.planner": "the manager plans itself",
}


def idle_notes(given: Fields) -> tuple[str, ...]:
    """One line for each setting that was given, is not off, and has no effect.

    Args:
        given: what files and flags say, without the built-in defaults.
    """
    match given.get("kind", "agent"):
        case "delegation":
            idle = dict(DELEGATION_IDLE)
        case "roles":
            # Loops of roles run loops as stages.
            own = {path: why for path, why in IDLE.items() if not path.startswith("budget.")}
            idle = {**own, **ROLES_IDLE}
        case "agent" if given.get("recall") is not True:
            idle = {**IDLE, **AGENT_IDLE}
        case _:
            idle = dict(IDLE)
    return tuple(
        f"{path}: {_words(value)} has no effect in this version: {why}."
        for path, why in idle.items()
        if (value := _at(given, path)) and value != "off"
    )


def _at(fields: Fields, path: str) -> JsonValue:
    steps = steps_of(path)
    if not has(fields, steps):
        return None
    value: JsonValue = fields
    for step in steps:
        value = value[str(step)] if isinstance(value, dict) else None
    return value


def _words(value: JsonValue) -> str:
    return value if isinstance(value, str) else shown(value)
