"""What a person does with a skill that a run proposes: approve, reject; for every interface."""

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


async def proposed(memory: MemoryStore, wanted: str) -> Skill:
    """The proposal of that id or that name.

    Raises:
        NotFound: none is called so.
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
    """Give a proposal to later runs, under a name.

    Raises:
        NotFound: there is no such proposal.
        InvalidInput: several are meant, or the name has neither letters nor digits.
        NotAllowed: no accepted run made it, or a person wrote a skill of that name.
    """
    skill = await proposed(memory, wanted)
    run = await records.run(skill.proposed_by)
    outcome = run.outcome if run is not None else None
    opened = approved(skill, outcome=outcome, by=by, now=now, name=name)
    kept = (await memory.put(opened)).entry
    await memory.forget(skill.id)
    return kept if isinstance(kept, Skill) else opened


async def reject(memory: MemoryStore, wanted: str) -> Skill:
    """Drop a proposal.

    Raises:
        NotFound: there is no such proposal.
        InvalidInput: several are meant.
    """
    skill = await proposed(memory, wanted)
    await memory.forget(skill.id)
    return skill
