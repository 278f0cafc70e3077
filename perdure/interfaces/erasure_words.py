"""The result of an erasure in words, for the terminal and the page."""

from perdure.domain.retention.erasure import Erased
from perdure.interfaces.formatting import plural

SERVER_WORDS = (
    "The server was told to delete the executions, and does so a moment later. Its backups, its "
    "archive and its logs are out of reach here, and so are backups of the store: they hold what "
    "they held until they expire."
)
BOOKS_WORDS = (
    "A tombstone keeps kind, outcome and times, so that sums stay right; the journal keeps figures."
)


def erased_words(found: Erased) -> list[str]:
    """One line for each kind of thing that was, or would be, erased."""
    memory = found.memory
    parts = [
        plural(count, noun)
        for count, noun in (
            (memory.learnings, "learning"),
            (memory.episodes, "episode"),
            (memory.skills, "skill"),
            (memory.patterns, "pattern"),
            (memory.events, "event"),
            (memory.tools, "made tool"),
        )
        if count
    ]
    lines = [
        f"{plural(len(found.runs), 'run')}: {', '.join(found.runs[:5])}"
        + (" …" if len(found.runs) > 5 else ""),
        f"{plural(found.blobs, 'blob')}"
        + (" at most" if found.dry_run else f" ({found.bytes / 1024:.0f} KiB)"),
        f"memory: {', '.join(parts) or 'nothing'}",
    ]
    if memory.shared:
        kept = ", ".join(memory.shared[:5])
        lines.append(
            "kept, as other runs said it too, or as this version cannot read whose it is: "
            f"{kept}. Forget with `perdure memory forget`"
        )
    if found.shared:
        lines.append(f"{plural(found.shared, 'blob')} stay, as something else names them")
    if found.later and found.later_at is not None:
        lines.append(
            f"{plural(found.later, 'blob')} are too young to be dropped safely; `perdure gc` drops "
            f"them after {found.later_at:%Y-%m-%d %H:%M} UTC"
        )
    return lines
