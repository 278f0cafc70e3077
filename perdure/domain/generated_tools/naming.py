"""Names of made tools: dotted, outside what Perdure keeps for itself, inside what is allowed."""

import re
from collections.abc import Mapping, Sequence

from perdure.domain.generated_tools.draft import NAME_CHARACTERS, ToolDraft
from perdure.domain.generated_tools.rejections import ToolRefused, refused

RESERVED = frozenset(
    {
        "agent",
        "artifact",
        "builtin",
        "children",
        "fs",
        "git",
        "human",
        "http",
        "loop",
        "loops",
        "mcp",
        "memory",
        "perdure",
        "project",
        "role",
        "run",
        "session",
        "shell",
        "skill",
        "sprint",
        "system",
        "todo",
        "tool",
        "tools",
        "web",
        "worker",
    }
)
# A tool of such a name would look like something that does more than compute.
RESERVED_MODULES = frozenset(
    {
        "asyncio", "builtins", "code", "codecs", "concurrent", "ctypes", "eval", "exec", "fcntl",
        "gc",
        "glob", "imp", "importlib", "inspect", "io", "marshal", "mmap", "multiprocessing", "os",
        "pathlib", "pickle", "pip", "platform", "posix", "pty", "pwd", "requests", "resource",
        "runpy",
        "select", "shelve", "shutil", "signal", "site", "smtplib", "socket", "sqlite3", "ssl",
        "subprocess", "sys", "tempfile", "threading", "types", "urllib", "venv", "zipimport",
    }
)  # fmt: skip
_SEGMENT = r"[a-z][a-z0-9_]{0,39}"
_NAME = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})+")


def namespace(name: str) -> str:
    """The part of a name before its first dot."""
    return name.partition(".")[0]


def name_refusal(
    draft: ToolDraft,
    *,
    allowed: Sequence[str] = (),
    agent_allowed: Sequence[str] = (),
    taken: Mapping[str, str],
    catalog: Sequence[str] = (),
) -> ToolRefused | None:
    """Why a name may not be used, or None.

    Args:
        draft: the tool.
        allowed: the namespaces of the run; empty allows every one that is not reserved.
        agent_allowed: those of the worker, read the same way.
        taken: the tools of the run, name to hash.
        catalog: every tool of the worker, by name.
    """
    name = draft.name
    if "." not in name:
        return refused("name", 400, "name", f"{name[:80]!r} has no dot; name it like text.count")
    if len(name) > NAME_CHARACTERS or _NAME.fullmatch(name) is None:
        return refused(
            "name",
            400,
            "name",
            f"{name[:80]!r} is no tool name: lower-case letters, digits and underscores between "
            f"dots, at most {NAME_CHARACTERS} characters, such as text.count",
        )
    first = namespace(name)
    # Namespaces of plugins are closed as well: a made tool must not pass for one of theirs.
    if first in RESERVED | RESERVED_MODULES or any(
        namespace(one) == first for one in catalog if "." in one
    ):
        return refused("name", 403, "name", f"the namespace {first!r} is reserved; choose another")
    for who, names in (("this run", allowed), ("this worker", agent_allowed)):
        if names and first not in names:
            listed = ", ".join(names)
            return refused(
                "name", 403, "name", f"the namespace {first!r} is not allowed to {who}: {listed}"
            )
    # The same code under its own name is no conflict: another worker may ask for it again.
    if name in catalog or taken.get(name, draft.hash) != draft.hash:
        return refused(
            "name", 409, "taken", f"{name} is taken by other code; call that tool, or rename this"
        )
    return None
