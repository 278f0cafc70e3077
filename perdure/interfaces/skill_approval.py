"""What a person can do with a skill that a run proposed: approve, reject; for all interfaces."""

from datetime import datetime

from perdure.domain.memory.entries import Skill
from perdure.domain.memory.skills import approved, one_proposal, proposals
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import RecordStore

SKILLS_AT_MOST = 1_000


async def skills(memory: MemoryStore, *, category: str | None = None) -> list[Skill]:
    """All skills, the newest first."""
    found = await memory.list(kinds=("skill",), category=category, limit=SKILLS_AT_MOST)
    return [entry for entry in found if isinstance(entry, Skill)]


async def find_proposal(memory: MemoryStore, wanted: str) -> Skill:
    """The proposal with this id or name.

    Raises:
        NotFound: there is none.
        InvalidInput: several runs propose a skill of that name.
    """
    waiting = proposals(await skills(memory))
    by_id = next((skill for skill in waiting if skill.id == wanted), None)
    return by_id or one_proposal(wanted, waiting)


async def approve(
    memory: MemoryStore,
    records: RecordStore,
    wanted: str,
    *,
    by: str,
    now: datetime,
    name: str | None = None,
) -> Skill:
    """Let later runs use a proposal, under a name.

    Raises:
        NotFound: there is no such proposal.
        InvalidInput: several match, or the name has neither letters nor digits.
        NotAllowed: no accepted run made it, or a person wrote a skill of that name.
    """
    skill = await find_proposal(memory, wanted)
    run = await records.run(skill.proposed_by)
    outcome = run.outcome if run is not None else None
    opened = approved(skill, outcome=outcome, by=by, now=now, name=name)
    # Kept before the proposal goes: after a kill in between, it can be approved again.
    kept = (await memory.put(opened)).entry
    await memory.forget(skill.id)
    return kept if isinstance(kept, Skill) else opened


async def reject(memory: MemoryStore, wanted: str) -> Skill:
    """Delete a proposal.

    Raises:
        NotFound: there is no such proposal.
        InvalidInput: several match.
    """
    skill = await find_proposal(memory, wanted)
    await memory.forget(skill.id)
    return skill
