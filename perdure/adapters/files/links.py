"""Resolves links that stay inside a folder, name by name below its descriptor.

Tools name a file as they see it. They open the path that is found here, again step by step by
descriptor and without following links. So a link that is swapped in between causes an error and
never leads elsewhere, and a protected file is protected under every name. Of a link only its text
is read. The kernel follows none, so the links of /proc, which lead elsewhere than their text says,
lead nowhere.
"""

from perdure.adapters.files.paths import Use, shown, why_protected
from perdure.adapters.files.rooted_files import Parts, RootedDirectory
from perdure.domain.foundation.errors import ToolFailure

# Linux follows as many in one path.
MOST_LINKS = 40
MOST_NAMES = 2_000


def inside(files: RootedDirectory, parts: Parts, *, use: Use = "read", last: bool = True) -> Parts:
    """The path without links; names after one that does not exist stay as they are.

    Args:
        files: the folder that no path may leave.
        parts: a path below it.
        use: what the path is needed for.
        last: whether to follow the last name too.

    Raises:
        ToolFailure: a link leads out of the folder, in a circle, or to a protected file.
    """
    # Not done by openat2(RESOLVE_BENEATH), because the real name must be known: it may be protected
    # (`notes -> .env`). Older kernels also lack that call.
    real: list[str] = []
    waiting = list(reversed(parts))
    followed = 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            if not real:
                raise _outward(parts)
            real.pop()
            continue
        here = (*real, name)
        target = _target(files, here) if waiting or last else None
        if target is None:
            real.append(name)
            continue
        followed += 1
        if followed > MOST_LINKS or len(waiting) > MOST_NAMES:
            raise ToolFailure(
                f"{_named(parts)} leads through more than {MOST_LINKS} links, or in a circle. "
                "Name the real file inside the workspace.",
                reason="link",
            )
        if target.startswith("/") or not target:
            raise _outward(parts)
        waiting += [one for one in reversed(target.split("/")) if one not in {"", "."}]
    found = tuple(real)
    if found != parts and (why := why_protected(found, use=use)):
        raise ToolFailure(
            f"{_named(parts)} leads to {_named(found)}, which is {why}.", reason="protected"
        )
    return found


def _target(files: RootedDirectory, parts: Parts) -> str | None:
    """The text of a link; None for anything else, or nothing."""
    entry = files.entry(parts)
    if entry is None or entry.kind != "link":
        return None
    try:
        return files.link_target(parts)
    except ToolFailure:
        return None  # swapped just now; opening the path reports what is there


def _outward(parts: Parts) -> ToolFailure:
    return ToolFailure(
        f"{_named(parts)} leads out of the workspace through a symbolic link. "
        "Links are followed only where they stay inside by a relative path.",
        reason="link",
    )


def _named(parts: Parts) -> str:
    return shown("/".join(parts) or ".")
