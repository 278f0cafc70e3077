"""The activities `read_skills`, `save_skills` and `offer_skills`: skills of a delegation run.

A retried step saves a text under the same name and version.
"""

from collections.abc import Sequence
from typing import Protocol

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Stopwatch
from perdure.domain.delegation.skills import (
    KnownSkill,
    OfferSkillsReport,
    OfferSkillsRequest,
    ReadSkillsReport,
    ReadSkillsRequest,
    SaveSkillsReport,
    SaveSkillsRequest,
    SkillFile,
    SkillTexts,
    is_skill,
    named_skills,
)
from perdure.domain.memory.entries import MemoryEntry, Skill, may_enter
from perdure.domain.memory.recall import (
    TOLD_KINDS,
    RecallReport,
    RecallRequest,
    recalled,
    report_of,
)
from perdure.domain.memory.skills import (
    catalog_line,
    plain_name,
    proposal,
    proposal_name,
    select_skills,
)
from perdure.domain.memory.store import Candidates, MemoryStore
from perdure.domain.memory.tokenizer import question_terms
from perdure.domain.ports import BlobStore

LOOKED_AT = 200


class SkillFolder(Protocol):
    """The folder in which the skills of a run are files."""

    async def read(self, root: str) -> SkillTexts:
        """The skills in the folder; none if there is no such folder."""
        ...

    async def write(self, root: str, *, name: str, text: str) -> None:
        """Write a skill as a file; replaces the one of the same name."""
        ...


class ReadSkills:
    """Reads the skills that are files of a working folder."""

    def __init__(self, *, blobs: BlobStore, folder: SkillFolder) -> None:
        self._blobs = blobs
        self._folder = folder

    @activity.defn
    @translated
    async def read_skills(self, step: ReadSkillsRequest) -> ReadSkillsReport:
        """Store the text of each, so that workers can be given it."""
        watch = Stopwatch()
        found = await self._folder.read(step.root)
        skills = {
            text.name: SkillFile(ref=await self._blobs.put(text.markdown.encode()), line=text.line)
            for text in found.texts
        }
        return ReadSkillsReport(skills=skills, problems=found.problems, seconds=watch.seconds)


class SaveSkills:
    """Saves skills as files of the working folder and as proposals in memory."""

    def __init__(self, *, blobs: BlobStore, memory: MemoryStore, folder: SkillFolder) -> None:
        self._blobs = blobs
        self._memory = memory
        self._folder = folder

    @activity.defn
    @translated
    async def save_skills(self, step: SaveSkillsRequest) -> SaveSkillsReport:
        """Save every text that is long enough to be a skill; the latest of a name counts."""
        watch = Stopwatch()
        given = [await self._blobs.put(text.encode()) for text in step.written]
        refs = dict.fromkeys((*given, *step.texts))
        texts = [(ref, await self._blobs.get_text(ref)) for ref in refs]
        kept = [(ref, text) for ref, text in texts if is_skill(text)]
        saved = named_skills(kept, step.versions)
        for place, (skill, (_, text)) in enumerate(zip(saved, kept, strict=True)):
            if step.folder is not None:
                await self._folder.write(step.folder, name=skill.name, text=text)
            # Under a name of this tree of runs, so that it replaces no approved skill.
            proposed = proposal(
                skill.name, text, run=step.root_run, category=step.category, now=step.now
            )
            known = await self._memory.skill(proposed.name)
            # An attempt whose answer was lost wrote it already, maybe a later one of the name too.
            # Earlier versions do not count: a text that is written again is the latest one.
            later = {
                after.strip()
                for one, (_, after) in zip(saved[place:], kept[place:], strict=True)
                if one.name == skill.name
            }
            if known is None or known.text not in later:
                await self._memory.put(proposed)
        return SaveSkillsReport(saved=saved, short=len(texts) - len(kept), seconds=watch.seconds)


class OfferSkills:
    """Finds skills and learnings of earlier runs and people for a task."""

    def __init__(self, *, blobs: BlobStore, memory: MemoryStore) -> None:
        self._blobs = blobs
        self._memory = memory

    @activity.defn
    @translated
    async def offer_skills(self, step: OfferSkillsRequest) -> OfferSkillsReport:
        """Store the texts of the fitting skills, so that workers can be given them."""
        watch = Stopwatch()
        own = [await self._own(name, step) for name in step.written]
        asked = [(name, await self._asked(name, step)) for name in step.asked]
        named = [skill for _, skill in asked if skill is not None]
        chosen = await self._chosen(step, [skill for skill in named if may_enter(skill)])
        of_tree = [skill for skill in (*own, *named) if skill and skill.approved is False]
        await self._memory.mark_used([one.id for one in chosen], run=step.run, at=step.now)
        return OfferSkillsReport(
            skills={skill.name: await self._known(skill, earlier=True) for skill in chosen},
            written={plain_name(one): await self._known(one, earlier=False) for one in of_tree},
            missing=tuple(name for name, skill in asked if skill is None),
            recalled=await self._recalled(step) if step.search else None,
            seconds=watch.seconds,
        )

    async def _recalled(self, step: OfferSkillsRequest) -> RecallReport:
        """What earlier runs learned about such work, stored as the manager will read it."""
        asked = RecallRequest(
            run=step.run,
            goal=step.goal,
            category=step.category,
            token_limit=step.recall_tokens,
            now=step.now,
        )
        await self._memory.forget_faded(step.now)
        terms = question_terms(step.goal, step.category)
        known = await self._memory.candidates(terms, kinds=TOLD_KINDS)
        found = recalled(asked, known, Candidates(), ())
        await self._memory.mark_used(found.used, run=step.run, at=step.now)
        told = found.knowledge.text
        text = await self._blobs.put_text(told) if told else None
        return report_of(found, text=text, skills_text=None, seconds=0.0)

    async def _asked(self, name: str, step: OfferSkillsRequest) -> Skill | None:
        """A skill by name: one that this tree of runs wrote, else one approved for all runs."""
        own = await self._own(name, step)
        known = own or await self._memory.skill(name)
        return known if known is not None and (known is own or may_enter(known)) else None

    async def _own(self, name: str, step: OfferSkillsRequest) -> Skill | None:
        return await self._memory.skill(proposal_name(name, step.root_run))

    async def _chosen(self, step: OfferSkillsRequest, named: Sequence[Skill]) -> list[Skill]:
        terms = question_terms(step.goal, step.category)
        found: Sequence[MemoryEntry] = ()
        if step.search:
            looked = await self._memory.candidates(terms, kinds=("skill",), limit=LOOKED_AT)
            found = looked.entries
        skills = (*named, *(entry for entry in found if isinstance(entry, Skill)))
        chosen = select_skills(
            {skill.id: skill for skill in skills}.values(),
            requested=step.asked,
            category=step.category,
            asked=terms,
            now=step.now,
        )
        return [item.skill for item in chosen]

    async def _known(self, skill: Skill, *, earlier: bool) -> KnownSkill:
        name = plain_name(skill) if skill.approved is False else skill.name
        return KnownSkill(
            ref=await self._blobs.put(skill.text.encode()),
            line=catalog_line(name, f"## Purpose\n{skill.purpose}"),
            version=skill.version,
            earlier=earlier,
        )
