"""The activities `save_skills` and `offer_skills`: what the workers of a run write down, and get.

A text that was saved by an earlier attempt is saved again under the same name and version.
"""

from typing import Protocol

from temporalio import activity

from activities.stopwatch import Stopwatch
from activities.translate import translated
from perdure.domain.delegation.skills import (
    KnownSkill,
    OfferSkillsReport,
    OfferSkillsRequest,
    SavedSkill,
    SaveSkillsReport,
    SaveSkillsRequest,
    is_skill,
    named_skills,
)
from perdure.domain.memory.entries import Skill, may_enter
from perdure.domain.memory.proposals import proposal
from perdure.domain.memory.skill_markdown import catalog_line
from perdure.domain.memory.skills import select_skills
from perdure.domain.memory.store import MemoryStore
from perdure.domain.memory.words import question
from perdure.domain.ports import BlobStore

LOOKED_AT = 200


class SkillFolder(Protocol):
    """Where the skills of a run lie as files."""

    async def write(self, root: str, *, name: str, text: str) -> None:
        """Write one skill below a working folder, over the one of its name."""
        ...


class SaveSkills:
    """Keeps skills as files of the working folder, and as proposals in memory."""

    def __init__(self, *, blobs: BlobStore, memory: MemoryStore, folder: SkillFolder) -> None:
        self._blobs = blobs
        self._memory = memory
        self._folder = folder

    @activity.defn
    @translated
    async def save_skills(self, step: SaveSkillsRequest) -> SaveSkillsReport:
        """Keep what is long enough to be a skill, the latest of a name in force."""
        watch = Stopwatch()
        texts = [(ref, await self._blobs.get_text(ref)) for ref in dict.fromkeys(step.texts)]
        kept = [(ref, text) for ref, text in texts if is_skill(text)]
        saved = named_skills(kept, step.versions)
        for skill, (_, text) in zip(saved, kept, strict=True):
            await self._save(skill, text, step)
        return SaveSkillsReport(saved=saved, short=len(texts) - len(kept), seconds=watch.seconds)

    async def _save(self, skill: SavedSkill, text: str, step: SaveSkillsRequest) -> None:
        if step.folder is not None:
            await self._folder.write(step.folder, name=skill.name, text=text)
        proposed = proposal(
            skill.name, text, run=step.root_run, category=step.category, now=step.now
        )
        known = await self._memory.skill(proposed.name)
        # An attempt whose answer was lost wrote it already, maybe several versions of it.
        if known is None or not known.had(proposed.text):
            await self._memory.put(proposed)


class OfferSkills:
    """Finds the skills of earlier runs and of people that fit a task."""

    def __init__(self, *, blobs: BlobStore, memory: MemoryStore) -> None:
        self._blobs = blobs
        self._memory = memory

    @activity.defn
    @translated
    async def offer_skills(self, step: OfferSkillsRequest) -> OfferSkillsReport:
        """Put the texts of those that fit where workers can be given them."""
        watch = Stopwatch()
        terms = question(step.goal, step.category)
        found = await self._memory.candidates(terms, kinds=("skill",), limit=LOOKED_AT)
        named = [skill for name in step.asked if (skill := await self._memory.skill(name))]
        skills = (*named, *(entry for entry in found.entries if isinstance(entry, Skill)))
        chosen = select_skills(
            {skill.id: skill for skill in skills}.values(),
            requested=step.asked,
            category=step.category,
            asked=terms,
            now=step.now,
        )
        offered = {
            item.skill.name: KnownSkill(
                ref=await self._blobs.put(item.skill.text.encode()),
                line=catalog_line(item.skill.name, f"## Purpose\n{item.skill.purpose}"),
                version=item.skill.version,
                earlier=True,
            )
            for item in chosen
        }
        await self._memory.mark_used([one.skill.id for one in chosen], run=step.run, at=step.now)
        at_hand = {skill.name.casefold() for skill in named if may_enter(skill)}
        missing = tuple(name for name in step.asked if name.casefold() not in at_hand)
        return OfferSkillsReport(skills=offered, missing=missing, seconds=watch.seconds)
