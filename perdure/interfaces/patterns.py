"""What a person can do with a pattern: approve it as a skill, or reject it; for all interfaces."""

from datetime import datetime

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.memory.entries import Episode, Pattern, PatternState, Skill
from perdure.domain.memory.patterns import categories_of, skill_of, source_of
from perdure.domain.memory.store import MemoryStore

EPISODES_READ = 1_000
PATTERNS_READ = 1_000


class Approved(FrozenModel):
    """An approved pattern, and the skill that it became."""

    pattern: Pattern
    skill: Skill


async def patterns(memory: MemoryStore, *, state: PatternState | None = None) -> list[Pattern]:
    """Patterns, the most certain first."""
    found = await memory.list(kinds=("pattern",), limit=PATTERNS_READ)
    kept = [entry for entry in found if isinstance(entry, Pattern)]
    kept = [entry for entry in kept if state is None or entry.state == state]
    return sorted(kept, key=lambda entry: (-entry.confidence, entry.sort, entry.subject))


async def approve(
    memory: MemoryStore,
    entry: str,
    *,
    by: str,
    now: datetime,
    name: str | None = None,
    written: Skill | None = None,
) -> Approved:
    """Make a skill of a pattern, from what worked in accepted runs or from a person's text.

    Args:
        memory: the store of both.
        entry: the pattern's id, or a unique beginning of it.
        by: who approves.
        now: the clock.
        name: the skill's name; without one, it is made from the pattern.
        written: the skill as the person wrote it.

    Raises:
        NotFound: there is no such entry.
        InvalidInput: it is no pattern.
        NotAllowed: there is a skill of that name, or nothing to write it from.
    """
    pattern = await _pattern(memory, entry)
    skill = _of_person(written, pattern, name, by) if written is not None else None
    if skill is None:
        episodes = [
            item
            for category in categories_of(pattern)
            for item in await memory.list(
                kinds=("episode",), category=category, limit=EPISODES_READ
            )
            if isinstance(item, Episode)
        ]
        skill = skill_of(pattern, episodes, name=name, by=by, now=now)
    known = await memory.skill(skill.name)
    if known is not None and known.source.partition(",")[0] != f"pattern {pattern.id}":
        raise NotAllowed(
            f"There is a skill {known.name} already.", cure="Name this one: --name OTHER."
        )
    # The skill first: after a kill in between, a repeat finds it by its source and goes on.
    kept = (await memory.put(skill)).entry
    approved = pattern.model_copy(update={"state": "approved"})
    await memory.replace(approved)
    return Approved(pattern=approved, skill=kept if isinstance(kept, Skill) else skill)


async def reject(memory: MemoryStore, entry: str) -> Pattern:
    """Never propose a pattern again; a skill made from it is for the person to delete.

    Raises:
        NotFound: there is no such entry.
        InvalidInput: it is no pattern.
        NotAllowed: it is approved, and its skill is in use.
    """
    pattern = await _pattern(memory, entry)
    if pattern.state == "approved":
        raise NotAllowed(
            f"The pattern {pattern.id} is approved already.",
            cure="Drop its skill: `perdure skills list`, then `perdure skills forget NAME`.",
        )
    rejected = pattern.model_copy(update={"state": "rejected"})
    await memory.replace(rejected)
    return rejected


async def _pattern(memory: MemoryStore, entry: str) -> Pattern:
    found = await memory.get(entry)
    if not isinstance(found, Pattern):
        raise InvalidInput(
            f"The entry {found.id} is not a pattern but of the kind {found.kind}.",
            cure="`perdure patterns list` shows the patterns.",
        )
    return found


def _of_person(written: Skill, pattern: Pattern, name: str | None, by: str) -> Skill:
    return written.model_copy(
        update={
            "name": name or written.name,
            "categories": written.categories or categories_of(pattern),
            "source": source_of(pattern, by),
        }
    )
