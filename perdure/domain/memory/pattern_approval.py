"""How a pattern becomes a skill: a person approves it, and accepted runs say what worked."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.memory.entries import Episode, Pattern, Skill, may_enter
from perdure.domain.memory.rule_lessons import entry_id

EPISODES_TOLD = 8
GOAL_CHARACTERS = 160
NAME_CHARACTERS = 60
_BETWEEN = {"category": "", "hour": "-at-", "pair": "-then-"}
_NOT_IN_A_NAME = re.compile(r"[^\w]+")


def suggested_name(pattern: Pattern) -> str:
    """A name for the skill of a pattern, made of what the pattern is about."""
    slugs = (_NOT_IN_A_NAME.sub("-", part.casefold()).strip("-") for part in pattern.subject)
    return _BETWEEN[pattern.sort].join(slugs)[:NAME_CHARACTERS].strip("-") or pattern.id


def skill_of(
    pattern: Pattern, episodes: Iterable[Episode], *, name: str | None, by: str, now: datetime
) -> Skill:
    """The skill that a person makes of a pattern; nothing enters it but what accepted runs left.

    Raises:
        NotAllowed: no accepted run of these categories left an episode to write it from.
    """
    told = worth_telling(pattern, episodes)
    if not told:
        raise NotAllowed(
            f"No accepted run of {' or '.join(pattern.subject[:2])} says what worked.",
            cure="Write the skill yourself, and give it with --file FILE.md.",
        )
    chosen = name or suggested_name(pattern)
    return Skill(
        kind="skill",
        id=entry_id("skill", pattern.id),
        name=chosen,
        purpose=purpose_of(pattern),
        categories=categories_of(pattern),
        category=pattern.category,
        text="\n".join(_lines(chosen, pattern, told)),
        effectiveness=_accepted_share(pattern),
        source=source_of(pattern, by),
        created=now,
        origins=tuple(episode.origins[0] for episode in told),
    )


def worth_telling(pattern: Pattern, episodes: Iterable[Episode]) -> Sequence[Episode]:
    """Accepted episodes of the pattern's categories, the best ones, each goal once."""
    wanted = categories_of(pattern)
    found = [
        episode
        for episode in episodes
        if (episode.category or "").strip().casefold() in wanted
        and episode.origins
        and may_enter(episode)
    ]
    found.sort(key=lambda item: (-(item.best_score or 0.0), -item.created.timestamp(), item.id))
    once = {(episode.goal, episode.text): episode for episode in reversed(found)}
    return [episode for episode in found if episode in once.values()][:EPISODES_TOLD]


def categories_of(pattern: Pattern) -> tuple[str, ...]:
    """The categories of tasks that a pattern is about."""
    return pattern.subject if pattern.sort == "pair" else pattern.subject[:1]


def purpose_of(pattern: Pattern) -> str:
    """One line on what the skill of a pattern is for."""
    first, *rest = pattern.subject
    match pattern.sort:
        case "category":
            return f"What worked in tasks of “{first}”"
        case "hour":
            return f"What worked in tasks of “{first}”, which come up at {rest[0]}"
        case "pair":
            return f"What worked in tasks of “{first}” and of “{rest[0]}”, which follows it"


def source_of(pattern: Pattern, by: str) -> str:
    """Where a skill comes from that a person made of a pattern."""
    return f"pattern {pattern.id}, approved by {by}"


def _lines(name: str, pattern: Pattern, told: Sequence[Episode]) -> list[str]:
    lines = [f"# {name}", "", f"{purpose_of(pattern)}. {pattern.text}", "", "## What worked", ""]
    for episode in told:
        score = "" if episode.best_score is None else f" ({episode.best_score:.2f})"
        lines.append(f"- {episode.goal[:GOAL_CHARACTERS]}{score}: {episode.text}".rstrip(": "))
    return lines


def _accepted_share(pattern: Pattern) -> float:
    """The share of the pattern's runs that were accepted, of those that are still known."""
    accepted = sum(origin.outcome == "accepted" for origin in pattern.origins)
    return accepted / len(pattern.origins) if pattern.origins else 0.5
