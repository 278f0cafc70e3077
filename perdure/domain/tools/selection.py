"""Which tools a run has: by its access level, and by the `tools:` section of its task.

Access classes speak about the workspace and the world: a tool that only keeps notes of its own run
is `read`. A level never offers more because a task asks for it.

A task can only narrow: the level decides what is possible, `allow` picks from it, `deny` wins over
`allow`, `approve` adds a question to a person. Names may end in `*` (`fs.*`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from perdure.domain.tools.definitions import AccessClass, AccessLevel, ToolDefinition, ToolGrant

READONLY_SHELL = "shell.readonly"
SHELL_FULL = "shell.full"
# Tools of such a name look into the memory of other runs: only the level `full` has them.
MEMORY = "memory."

_CLASSES: dict[AccessLevel, frozenset[AccessClass]] = {
    "full": frozenset({"read", "write", "execute", "network", "person"}),
    "readonly-shell": frozenset({"read", "person"}),
    "readonly": frozenset({"read", "person"}),
    "minimal": frozenset(),
}
# By its class, `execute`, the read-only shell would belong to `full` alone.
_BY_NAME: dict[AccessLevel, frozenset[str]] = {
    "full": frozenset(),
    "readonly-shell": frozenset({READONLY_SHELL}),
    "readonly": frozenset(),
    "minimal": frozenset(),
}


def offers(level: AccessLevel, fact: ToolDefinition) -> bool:
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
    # Again where the call runs: a grant may list what the run may not use.
    if fact.on_request and not grant.orchestrates:
        return f"{fact.name} is for agent runs that no other run started; do the work yourself."
    if not offers(grant.level, fact):
        return f"{fact.name} ({fact.access}) is beyond the access level {grant.level}."
    if changes_files(fact) and not grant.writable:
        return f"{fact.name} would change files, and this run's workspace is read-only."
    if fact.access == "person":
        return f"{fact.name} is answered by a person through a gate; no host can run it."
    return None


LOOP_TOOLS = ("loop_start", "loop_list", "loop_status", "loop_control", "loop_definitions")


STEM = "loop_"


def steers_loops(tool: str) -> bool:
    """Whether a tool of this name starts or steers loops, also by way of an MCP server."""
    return tool.rpartition(".")[2] in LOOP_TOOLS


def names_loop_tools(pattern: str) -> bool:
    """Whether a pattern means them on purpose, our own or those of a server; `*` does not."""
    return pattern.rpartition(".")[2].startswith(STEM)


@dataclass(frozen=True, slots=True)
class Selection:
    """The tools of a run, ordered by name, and what of the task's wishes could not be met."""

    tools: tuple[ToolDefinition, ...]
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The exact names on offer, as a grant lists them."""
        return tuple(fact.name for fact in self.tools)

    @property
    def writes(self) -> bool:
        """Whether any tool may change files, so that the run gets a working copy."""
        return any(changes_files(fact) for fact in self.tools)


def select(
    catalog: Sequence[ToolDefinition],
    *,
    level: AccessLevel,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
    approve: Sequence[str] = (),
    timeouts: Mapping[str, float] | None = None,
    belongs: bool = False,
    later: Sequence[str] = (),
    orchestrates: bool = False,
) -> Selection:
    """Pick the tools of a run from all that the worker has.

    Args:
        catalog: every tool of the hosts.
        level: the access level of the task or role.
        allow: names to keep; None keeps all that the level offers, an empty list nothing.
        deny: names to leave out, whatever `allow` says.
        approve: names whose calls a person approves first.
        timeouts: seconds per name or pattern, in place of the tool's own.
        belongs: whether the run is in a session or project, so that it is offered shared tools.
        later: what the names of tools begin with that only the worker knows; they are no problem.
        orchestrates: whether the run may start and steer loops, where it names those tools.
    """
    asked = () if allow is None else allow
    # A run that stands alone has nobody to share with, and would pay for the descriptions in every
    # prompt.
    here = [fact for fact in catalog if belongs or not fact.shared]
    # `orchestrates` alone is not enough: the task has to name these tools, and `*` does not.
    here = [fact for fact in here if not fact.on_request or (orchestrates and _named(asked, fact))]
    possible = [fact for fact in here if offers(level, fact) and not fact.unavailable]
    kept = [fact for fact in possible if allow is None or any_names(allow, fact.name)]
    kept = [fact for fact in kept if not any_names(deny, fact.name)]
    tools = tuple(
        _adjusted(fact, approve=approve, timeouts=timeouts or {})
        for fact in sorted(kept, key=lambda fact: fact.name)
    )
    wishes = {"allow": asked, "deny": deny, "approve": approve, "timeouts": tuple(timeouts or ())}
    return Selection(
        tools=tools,
        problems=tuple(
            problem
            for field, patterns in wishes.items()
            for pattern in patterns
            if not is_later(pattern, later)
            if (problem := _problem(field, pattern, catalog=catalog, level=level, belongs=belongs))
            or (problem := _beyond_loops(field, pattern, catalog, orchestrates=orchestrates))
        ),
    )


def is_later(pattern: str, later: Sequence[str]) -> bool:
    """Whether a name or pattern may mean a tool whose name begins with one of `later`."""
    stem = pattern.removesuffix("*")
    return any(
        stem.startswith(prefix) or (stem != pattern and prefix.startswith(stem)) for prefix in later
    )


def _named(allow: Sequence[str], fact: ToolDefinition) -> bool:
    """Whether a task asks for the tool on purpose; `*` takes in everything but these."""
    return any(names_loop_tools(pattern) and _matches(pattern, fact.name) for pattern in allow)


def _beyond_loops(
    field: str, pattern: str, catalog: Sequence[ToolDefinition], *, orchestrates: bool
) -> str | None:
    meant = [fact for fact in catalog if fact.on_request and _matches(pattern, fact.name)]
    if field != "allow" or orchestrates or not meant or not names_loop_tools(pattern):
        return None
    return (
        f"tools.allow: {meant[0].name} is for runs of kind agent that no other run started. "
        "Leave it out."
    )


def _adjusted(
    fact: ToolDefinition, *, approve: Sequence[str], timeouts: Mapping[str, float]
) -> ToolDefinition:
    own = timeout_of(timeouts, fact.name)
    return fact.model_copy(
        update={
            "needs_approval": fact.needs_approval or any_names(approve, fact.name),
            "timeout_s": fact.timeout_s if own is None else own,
        }
    )


def _problem(
    field: str,
    pattern: str,
    *,
    catalog: Sequence[ToolDefinition],
    level: AccessLevel,
    belongs: bool,
) -> str | None:
    found = [fact for fact in catalog if _matches(pattern, fact.name)]
    if not found:
        near = get_close_matches(pattern, [fact.name for fact in catalog], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"tools.{field}: no tool is named {pattern!r}.{hint}"
    if field == "allow" and not any(offers(level, fact) for fact in found):
        return (
            f"tools.{field}: {pattern!r} has access class {found[0].access}, which access level "
            f"{level} does not offer. Raise tools.access or leave the tool out."
        )
    if field == "allow" and not pattern.endswith("*"):
        return _obstacle(found[0], belongs=belongs)
    return None


def _obstacle(fact: ToolDefinition, *, belongs: bool) -> str | None:
    """Why a tool that is asked for by its name cannot be had."""
    if fact.unavailable:
        return f"tools.allow: {fact.name} cannot be used on this worker: {fact.unavailable}"
    if fact.shared and not belongs:
        return (
            f"tools.allow: {fact.name} is for runs of roles, which belong to a session and a "
            "project. Leave the tool out."
        )
    return None


def timeout_of(timeouts: Mapping[str, float], name: str) -> float | None:
    """The seconds that a task gives a tool: by its name, else by the longest pattern."""
    if name in timeouts:
        return timeouts[name]
    named = [pattern for pattern in timeouts if _matches(pattern, name)]
    return timeouts[max(named, key=len)] if named else None


def any_names(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the names and patterns means this tool."""
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
