"""Recall as a whole: what is asked, what candidates become for one run, how it is reported."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import AwareDatetime

from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.entries import Kind, Learning, Skill, may_enter
from perdure.domain.memory.prompt_blocks import MemoryBlock, block_of, one_line
from perdure.domain.memory.ranking import rank
from perdure.domain.memory.skills import ToldSkills, select_skills, tell_skills
from perdure.domain.memory.store import Candidates
from perdure.domain.memory.tokenizer import question_terms


# Histories leave out what is a default here, in this message and those below: another default would
# change what they say.
class RecallRequest(ActivityMessage):
    """Look up what earlier runs learned about a task.

    `token_limit` is what both blocks together may take, already the share of the run's budget
    (`recall_allowance`); `skills` are names that the task asks for. An empty `goal` is only met by
    skills that are asked for.
    """

    run: str
    goal: str
    category: str | None = None
    token_limit: int
    skills: tuple[str, ...] = ()
    now: AwareDatetime


class RecalledSkill(ActivityMessage):
    """A skill that the run was given."""

    id: str
    name: str
    version: int = 1
    deterministic: bool = False
    score: float = 0.0
    requested: bool = False


class RecallReport(ActivityMessage):
    """The recalled entries, with counts.

    `text` is the block of knowledge, `skills_text` that of skills; None where there is nothing.
    `used` are the ids of all that is shown, `left_out` the first titles of what found no place
    (`left_out_count` of them), `missing` the requested skills that memory does not hold, and
    `unreadable` counts the entries that were passed over because this version cannot read them.
    """

    text: BlobRef | None = None
    skills_text: BlobRef | None = None
    learnings: int = 0
    anti_patterns: int = 0
    similar_tasks: int = 0
    skills: tuple[RecalledSkill, ...] = ()
    used: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    missing: tuple[str, ...] = ()
    unreadable: int = 0
    summary: str = ""
    seconds: float = 0.0


TOLD_KINDS: tuple[Kind, ...] = ("learning", "episode")
# Enough for all: skills are chosen by how they did, not by how rare their words are.
SKILL_LIMIT = 10_000
NAMED_LEFT_OUT = 10
QUOTE_CHARACTERS = 80
# Skills are long: where there are any, knowledge leaves them half of the room.
KNOWLEDGE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Recalled:
    """What one run is told."""

    knowledge: MemoryBlock
    skills: ToldSkills
    missing: tuple[str, ...]
    avoid: str
    unreadable: int = 0

    @property
    def used(self) -> tuple[str, ...]:
        """The ids of all that is shown."""
        return (*self.knowledge.ids, *(item.skill.id for item in self.skills.shown))


def recalled(
    asked: RecallRequest, known: Candidates, skills: Candidates, named: Sequence[Skill]
) -> Recalled:
    """Rank, select and tell within the request's tokens; what knowledge leaves, skills may use."""
    terms = question_terms(asked.goal, asked.category)
    chosen = select_skills(
        # A skill may be named and found as well. Named ones are looked up by themselves, since they
        # may share no word with the goal.
        {entry.id: entry for entry in (*named, *skills.entries)}.values(),
        requested=asked.skills,
        category=asked.category,
        asked=terms,
        now=asked.now,
    )
    room = int(asked.token_limit * KNOWLEDGE_SHARE) if chosen else asked.token_limit
    knowledge = block_of(rank(terms, known, now=asked.now), limit=room, now=asked.now)
    left = asked.token_limit - estimate(knowledge.text).total
    # A proposal is held under its name and may not be told: it is missing all the same.
    at_hand = {skill.name.casefold() for skill in named if may_enter(skill)}
    shown = knowledge.shown["anti_patterns"]
    texts = [
        entry.text for entry in known.entries if isinstance(entry, Learning) and entry.id in shown
    ]
    return Recalled(
        knowledge=knowledge,
        skills=tell_skills(chosen, limit=left),
        missing=tuple(name for name in asked.skills if name.casefold() not in at_hand),
        avoid=texts[0] if len(texts) == 1 else "",
        unreadable=len(known.unreadable) + len(skills.unreadable),
    )


def report_of(
    found: Recalled, *, text: BlobRef | None, skills_text: BlobRef | None, seconds: float
) -> RecallReport:
    """The report of the step, with its line for people."""
    knowledge, skills = found.knowledge, found.skills
    left_out = (*knowledge.left_out, *skills.left_out)
    return RecallReport(
        text=text,
        skills_text=skills_text,
        learnings=len(knowledge.shown["learnings"]),
        anti_patterns=len(knowledge.shown["anti_patterns"]),
        similar_tasks=len(knowledge.shown["similar_tasks"]),
        skills=tuple(
            RecalledSkill(
                id=item.skill.id,
                name=item.skill.name,
                version=item.skill.version,
                deterministic=item.skill.deterministic,
                score=item.score,
                requested=item.requested,
            )
            for item in skills.shown
        ),
        used=found.used,
        left_out=left_out[:NAMED_LEFT_OUT],
        left_out_count=len(left_out),
        missing=found.missing,
        unreadable=found.unreadable,
        summary=_summary(found, len(left_out)),
        seconds=seconds,
    )


def _summary(found: Recalled, left_out: int) -> str:
    """Such as "2 similar tasks, 1 anti-pattern, 1 skill"; nothing found is "0 similar tasks"."""
    shown = found.knowledge.shown
    avoid = _counted(len(shown["anti_patterns"]), "anti-pattern")
    quote = f": “{one_line(found.avoid, QUOTE_CHARACTERS)}”" if found.avoid else ""
    parts = [
        _counted(len(shown["similar_tasks"]), "similar task"),
        avoid and f"{avoid}{quote}",
        _counted(len(shown["learnings"]), "learning"),
        _counted(len(found.skills.shown), "skill"),
        f"{left_out} left out" if left_out else "",
        f"{found.unreadable} unreadable" if found.unreadable else "",
        f"no skill {', '.join(found.missing)}" if found.missing else "",
    ]
    return ", ".join(filter(None, parts)) or "0 similar tasks"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
