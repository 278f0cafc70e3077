"""Which skills a task gets, and what the end of a run teaches about the skills that it used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from perdure.domain.memory.decay import is_faded
from perdure.domain.memory.entries import MemoryEntry, Remembered, Skill, may_enter
from perdure.domain.memory.tokenizer import terms

EXPERIENCE_WEIGHT = 0.4
EXPERIENCED_AFTER = 10
CATEGORY_WEIGHT = 0.2
KEPT_ABOVE = 0.1
SKILLS_AT_MOST = 5
FULL_TEXTS = 3
DECIMALS = 9

E = TypeVar("E", bound=Remembered)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A skill for a task; `requested` by name, or chosen by its score."""

    skill: Skill
    score: float
    requested: bool = False


def skill_score(skill: Skill, *, category: str | None, asked: Sequence[str]) -> float:
    """Effectiveness × min(uses / 10, 1) × 0.4, and 0.2 when the category fits.

    A skill that names no category fits a task that shares a term with its name or purpose.
    """
    experience = skill.effectiveness * min(skill.uses / EXPERIENCED_AFTER, 1) * EXPERIENCE_WEIGHT
    fits = CATEGORY_WEIGHT if _fits(skill, category, asked) else 0.0
    return round(experience + fits, DECIMALS)


def select_skills(
    known: Iterable[MemoryEntry],
    *,
    requested: Sequence[str] = (),
    category: str | None = None,
    asked: Sequence[str] = (),
    now: datetime,
) -> tuple[Chosen, ...]:
    """At most five: first those named in the request, in its order, then by score and name."""
    offered = [entry for entry in known if isinstance(entry, Skill) and may_enter(entry)]
    wanted = list(dict.fromkeys(name.casefold() for name in requested))
    rated = [
        Chosen(
            skill,
            skill_score(skill, category=category, asked=asked),
            requested=skill.name.casefold() in wanted,
        )
        for skill in offered
    ]
    kept = [item for item in rated if item.requested or _earns_its_place(item, now)]

    def place(item: Chosen) -> tuple[int, float, str]:
        turn = wanted.index(item.skill.name.casefold()) if item.requested else len(wanted)
        return (turn, -item.score, item.skill.name)

    return tuple(sorted(kept, key=place)[:SKILLS_AT_MOST])


def after_outcome(entry: E, *, accepted: bool) -> E:
    """An entry that a run used, when that run has ended: successes, and a skill's effectiveness."""
    successes = entry.successes + accepted
    if not isinstance(entry, Skill):
        return entry.model_copy(update={"successes": successes})
    # The first value counts as one run: (first + accepted runs) / (1 + runs).
    total = entry.effectiveness * (entry.judged + 1) + accepted
    return entry.model_copy(
        update={
            "successes": successes,
            "judged": entry.judged + 1,
            "effectiveness": min(1.0, round(total / (entry.judged + 2), DECIMALS)),
        }
    )


def _earns_its_place(item: Chosen, now: datetime) -> bool:
    return item.score > KEPT_ABOVE and not is_faded(item.skill, now)


def _fits(skill: Skill, category: str | None, asked: Sequence[str]) -> bool:
    if skill.categories:
        named = {name.casefold() for name in skill.categories}
        return category is not None and category.casefold() in named
    return not set(asked).isdisjoint(terms(f"{skill.name} {skill.purpose}"))
