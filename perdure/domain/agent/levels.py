"""Which tools an access level offers; checked again where a tool runs.

Access classes speak about the workspace and the world: a tool that only keeps notes of its own run
is `read`. A level never offers more because a task asks for it.
"""

from collections.abc import Iterable

from perdure.domain.tools import AccessClass, AccessLevel, ToolFact

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


def offers(level: AccessLevel, fact: ToolFact) -> bool:
    """Whether `level` may offer this tool at all."""
    if fact.name.startswith(MEMORY) and level != "full":
        return False
    return fact.access in _CLASSES[level] or fact.name in _BY_NAME[level]


def may_change_files(level: AccessLevel, accesses: Iterable[AccessClass]) -> bool:
    """Whether tools of these classes may be offered by `level` and change the workspace."""
    return any(one in _CLASSES[level] and one in {"write", "execute"} for one in accesses)


def changes_files(fact: ToolFact) -> bool:
    """Whether the tool may leave the workspace different, so that the run needs a copy."""
    return fact.access == "write" or (fact.access == "execute" and fact.name != READONLY_SHELL)
