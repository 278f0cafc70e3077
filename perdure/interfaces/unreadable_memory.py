"""Says which entries of memory this version cannot read; every list passes them over."""

from perdure.domain.memory.store import MemoryStore

NAMED = 5


async def unreadable_note(memory: MemoryStore) -> str:
    """A sentence that names them; empty where there are none."""
    names = await memory.unreadable()
    if not names:
        return ""
    told = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if names[NAMED:] else "")
    return (
        f"This version cannot read these entries of memory, so they are passed over: {told}. Run "
        f"the version that wrote them, or drop them: perdure memory forget {names[0]}"
    )
