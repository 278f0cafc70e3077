"""Links that stay inside: where a path really lies, found name by name below the descriptor.

Tools name a file as they see it; what they open is the place that this finds, with every step of it
by descriptor and without following links again. So a link that is swapped meanwhile leads to an
error, never to another place, and what is protected is so by whatever name it is reached. The text
of a link is all that is read of it: the kernel follows none, so the links of /proc, which lead
where their text does not, lead nowhere.
"""

from perdure.adapters.files.paths import Use, protected, shown
from perdure.adapters.files.rooted_files import Parts, RootedDirectory
from perdure.domain.foundation.errors import ToolFailure

# As many as Linux follows in one path.
MOST_LINKS = 40
MOST_NAMES = 2_000


def inside(files: RootedDirectory, parts: Parts, *, use: Use = "read", last: bool = True) -> Parts:
    """The path without links; names behind one that is missing stay as they are.

    Args:
        files: the folder that nothing leaves.
        parts: a path below it.
        use: what it is wanted for.
        last: whether the last name is followed too.

    Raises:
        ToolFailure: a link leads out of the folder, in a circle, or to what is protected.
    """
    # Resolved here instead of by openat2(RESOLVE_BENEATH): the real name must be known, since it
    # may be protected (`notes -> .env`), and older kernels lack the call.
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
    if found != parts and (why := protected(found, use=use)):
        raise ToolFailure(
            f"{_named(parts)} leads to {_named(found)}, which is {why}.", reason="protected"
        )
    return found


def _target(files: RootedDirectory, parts: Parts) -> str | None:
    """What a link says; None for anything else, and where nothing is."""
    entry = files.entry(parts)
    if entry is None or entry.kind != "link":
        return None
    try:
        return files.link_target(parts)
    except ToolFailure:
        return None  # swapped meanwhile: whoever opens it is told what is there now


def _outward(parts: Parts) -> ToolFailure:
    return ToolFailure(
        f"{_named(parts)} leads out of the workspace through a symbolic link. "
        "Links are followed only where they stay inside by a relative path.",
        reason="link",
    )


def _named(parts: Parts) -> str:
    return shown("/".join(parts) or ".")
