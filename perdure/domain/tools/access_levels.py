"""Which tools an access level offers; checked again where a tool runs.

Access classes speak about the workspace and the world: a tool that only keeps notes of its own run
is `read`. A level never offers more because a task asks for it.
"""

from collections.abc import Iterable

from perdure.domain.tools.definitions import AccessClass, AccessLevel, ToolDefinition, ToolGrant

READONLY_SHELL = "shell.readonly"
SHELL_FULL = "shell.full"
# What runs know of each other is for those that may do everything.
MEMORY = "memory."

_CLASSES: dict[AccessLevel, frozenset[AccessClass]] = {
    "full": frozenset({"read", "write", "execute", "network", "person"}),
    "readonly-shell": frozenset({"read", "person"}),
    "readonly": frozenset({"read", "person"}),
    "minimal": frozenset(),
}
_BY_NAME: dict[AccessLevel, frozenset[str]] = {
    "full": frozenset(),
    "readonly-shell": frozenset({READONLY_SHELL}),
    "readonly": frozenset(),
    "minimal": frozenset(),
}


def offers(level: AccessLevel, fact: ToolDefinition) -> bool:
    """Whether `level` may offer this tool at all."""
    if fact.name.startswith(MEMORY) and level != "full":
        return False
    return fact.access in _CLASSES[level] or fact.name in _BY_NAME[level]


def may_change_files(level: AccessLevel, accesses: Iterable[AccessClass]) -> bool:
    """Whether tools of these classes may be offered by `level` and change the workspace."""
    return any(one in _CLASSES[level] and one in {"write", "execute"} for one in accesses)


def changes_files(fact: ToolDefinition) -> bool:
    """Whether the tool may leave the workspace different, so that the run needs a copy."""
    return fact.access == "write" or (fact.access == "execute" and fact.name != READONLY_SHELL)


def refusal(fact: ToolDefinition, grant: ToolGrant) -> str | None:
    """Why this grant forbids the tool, for the model; None when it may run."""
    if fact.name not in grant.allowed:
        return (
            f"{fact.name} is not granted to this run. "
            f"On offer: {', '.join(grant.allowed) or 'none'}."
        )
    if fact.on_request and not grant.orchestrates:
        return f"{fact.name} is for agent runs that no other run started; do the work yourself."
    if not offers(grant.level, fact):
        return f"{fact.name} ({fact.access}) is beyond the access level {grant.level}."
    if changes_files(fact) and not grant.writable:
        return f"{fact.name} would change files, and this run's workspace is read-only."
    if fact.access == "person":
        return f"{fact.name} is answered by a person through a gate; no host can run it."
    return None
