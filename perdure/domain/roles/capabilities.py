"""What an installation offers to the `requires` of a definition, told by the tools it has."""

from collections.abc import Collection, Mapping

from perdure.domain.roles.definition import Capability

_TOOLS: Mapping[Capability, str] = {
    "artifacts": "artifact.",
    "todos": "todo.",
    "sprint": "sprint.",
    "projects": "sprint.",
    "skills": "skill.",
    "memory": "memory.",
    "web": "web.",
    "shell": "shell.full",
}


def capabilities(tools: Collection[str], kinds: Collection[str]) -> frozenset[Capability]:
    """The capabilities behind these names of tools and kinds of loops."""
    found: set[Capability] = {
        capability
        for capability, start in _TOOLS.items()
        if any(name.startswith(start) for name in tools)
    }
    if "delegation" in kinds:
        found.add("delegation")
    return frozenset(found)
