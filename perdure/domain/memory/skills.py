"""Skills: their Markdown, which ones a task gets, and what the end of a run teaches about them."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.entries import MemoryEntry, Origin, Remembered, Skill, may_enter
from perdure.domain.memory.prompt_blocks import one_line, provenance
from perdure.domain.memory.ranking import is_faded
from perdure.domain.memory.rule_lessons import entry_id
from perdure.domain.memory.tokenizer import terms

NAME_CHARACTERS = 60
TITLE_CHARACTERS = 500
PURPOSE_CHARACTERS = 200
LINE_CHARACTERS = 150
HASH_CHARACTERS = 10

_TITLE = re.compile(
    r"^[ ]{0,3}#[ \t]+(?P<heading>\S.*?)[ \t]*#*$"
    r"|^(?P<underlined>[^\s#>*-][^\n]*)\n=+[ \t]*$"
    r"|^[ ]{0,3}(?:#{1,6}[ \t]+)?[*_]{0,2}skill:[*_]{0,2}[ \t]*(?P<named>\S.*?)[ \t]*[#*_]*$",
    re.IGNORECASE | re.MULTILINE,
)
# Possessive (`,}+`, `*+`): a long row of back-ticks would be searched again and again.
_FENCE = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ ]{0,3}(?P=fence)|\Z)",
    re.DOTALL | re.MULTILINE,
)
_WORD_SKILL = re.compile(r"^skill:[ \t]*", re.IGNORECASE)
_NAMED_IN_FRONT = re.compile(
    r"^(?:name|title)[ \t]*:[ \t]*[\"']?(?P<name>[^\n]*?)[\"']?[ \t]*$", re.MULTILINE
)
_PURPOSE_IN_FRONT = re.compile(
    r"^(?:description|purpose)[ \t]*:[ \t]*[\"']?(?P<line>[^\n]*?)[\"']?[ \t]*$", re.MULTILINE
)
# Headings that all skills share; even as the highest one they say nothing of this skill.
_SECTION = re.compile(
    r"(?:example|goal|input|instruction|note|output|prerequisite|procedure|purpose|rule|step|tip)s?"
    r"|background|check-?list|context|description|how-to(?:-use(?:-this|-it)?)?|introduction"
    r"|overview|skill|summary|usage|when-to-use(?:-this|-it)?(?:-skill)?|(?:step|phase|part)-\d+(?:-.*)?"
)
_FRONT = re.compile(r"\A---[ \t]*\n(?P<facts>.*?)\n?---[ \t]*(?:\n|\Z)(?P<body>.*)\Z", re.DOTALL)
_PURPOSE = re.compile(r"^##[ \t]+purpose[ \t]*#*\n+(?P<line>[^\n]+)", re.IGNORECASE | re.MULTILINE)


def slug(title: str) -> str:
    """A name as it is typed: lower case, words joined by dashes, at most 60 characters."""
    words = re.findall(r"[^\W_]+", title.casefold())
    return "-".join(words)[:NAME_CHARACTERS].rstrip("-")


def title_of(markdown: str) -> str | None:
    """What names the skill, without the word "Skill:"; None for nothing.

    That is a name in the facts in front, a line "Skill: …", or else a heading of the first level
    that is no heading of a section. What stands in code fences names nothing.
    """
    facts, body = split_front(markdown)
    in_front = _NAMED_IN_FRONT.search(_short_lines(facts))
    if in_front and slug(in_front["name"]):
        return in_front["name"]
    found = [*_TITLE.finditer(_short_lines(_FENCE.sub("", body)))]
    said = [one["named"] or one["heading"] or one["underlined"] for one in found]
    titles = [_WORD_SKILL.sub("", title).strip() for title in said]
    named = [title for title, one in zip(titles, found, strict=True) if _is_called(one)]
    rest = (title for title in titles if not _SECTION.fullmatch(slug(title)))
    return next((title for title in (*named, *rest) if slug(title)), None)


def _short_lines(text: str) -> str:
    """The text with what a name can be made of: the patterns search long lines again and again."""
    return "\n".join(line[:TITLE_CHARACTERS] for line in text.split("\n"))


def _is_called(found: re.Match[str]) -> bool:
    """Whether a line says that it is the skill's name."""
    return bool(found["named"] or _WORD_SKILL.match(found["heading"] or ""))


def split_front(markdown: str) -> tuple[str, str]:
    """The YAML between two lines of `---` at the top of a skill's file, and the text below it."""
    found = _FRONT.match(markdown)
    return ("", markdown) if found is None else (found["facts"], found["body"])


def purpose_of(markdown: str) -> str:
    """The description or purpose in front, the first line below "Purpose", or the first of text."""
    facts, body = split_front(markdown)
    in_front = _PURPOSE_IN_FRONT.search(_short_lines(facts))
    # Only marks, such as `>`, announce a text of several lines.
    named = in_front if in_front and slug(in_front["line"]) else _PURPOSE.search(body)
    plain = (line for line in body.splitlines() if line.strip() and not line.startswith("#"))
    line = named["line"] if named else next(plain, "")
    return " ".join(line.split())[:PURPOSE_CHARACTERS]


def skill_name(markdown: str) -> str:
    """The name of a skill; an untitled one is called by its content, so none covers another."""
    named = slug(title_of(markdown) or "")
    if named:
        return named
    # A model may write half a character (a lone surrogate), which UTF-8 refuses.
    content = " ".join(markdown.split()).encode("utf-8", "surrogatepass")
    return f"skill-{hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]}"


def catalog_line(name: str, markdown: str) -> str:
    """A skill as a manager sees it: its name, and what it is for."""
    about = purpose_of(markdown)
    return clipped(f"{name}: {about}" if about else name, LINE_CHARACTERS)


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
    """First all that the request names, in its order, then by score and name while under five."""
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

    # One that is named is never dropped in silence: what has no room is told as left out.
    most = max(SKILLS_AT_MOST, sum(item.requested for item in kept))
    return tuple(sorted(kept, key=place)[:most])


def after_outcome(entry: E, *, accepted: bool, before: bool | None = None) -> E:
    """An entry that a run used, when that run has ended: successes, and a skill's effectiveness.

    `before`: the run ended already and was retried, and this says whether it was accepted then.
    """
    more = accepted - bool(before)
    successes = max(0, entry.successes + more)
    if not isinstance(entry, Skill):
        return entry.model_copy(update={"successes": successes})
    judged = entry.judged + (before is None)
    # The first value counts as one run: (first + accepted runs) / (1 + runs).
    total = entry.effectiveness * (entry.judged + 1) + more
    share = round(total / (judged + 1), DECIMALS)
    return entry.model_copy(
        update={
            "successes": successes,
            "judged": judged,
            "effectiveness": min(1.0, max(0.0, share)),
        }
    )


def _earns_its_place(item: Chosen, now: datetime) -> bool:
    return item.score > KEPT_ABOVE and not is_faded(item.skill, now)


def _fits(skill: Skill, category: str | None, asked: Sequence[str]) -> bool:
    # Without categories its words decide. Otherwise a new skill could never be chosen, and so never
    # prove itself.
    if skill.categories:
        named = {name.casefold() for name in skill.categories}
        return category is not None and category.casefold() in named
    return not set(asked).isdisjoint(terms(f"{skill.name} {skill.purpose}"))


@dataclass(frozen=True, slots=True)
class ToldSkills:
    """The block of skills, those that it holds, and the names of those that did not fit."""

    text: str
    shown: tuple[Chosen, ...]
    left_out: tuple[str, ...]


def tell_skills(chosen: Sequence[Chosen], *, limit: int) -> ToldSkills:
    """The first three skills whole, the others as a line, within `limit` estimated tokens.

    A skill whose whole text does not fit is given as a line; if that does not fit, it is left out.
    """
    parts: list[str] = []
    shown: list[Chosen] = []
    left_out: list[str] = []
    whole, free = 0, limit
    for item in chosen:
        full, line = _full(item), _line(item)
        if whole < FULL_TEXTS and _tokens(full) <= free:
            part, whole = full, whole + 1
        elif _tokens(line) <= free:
            part = line
        else:
            left_out.append(item.skill.name)
            continue
        free -= _tokens(part)
        parts.append(part)
        shown.append(item)
    return ToldSkills("\n\n".join(parts), tuple(shown), tuple(left_out))


def _full(item: Chosen) -> str:
    return f"{_line(item)}\n{item.skill.text.strip()}" if item.skill.text.strip() else _line(item)


def _line(item: Chosen) -> str:
    skill = item.skill
    purpose = one_line(skill.purpose, PURPOSE_CHARACTERS)
    name = one_line(skill.name, PURPOSE_CHARACTERS)
    about = f": {purpose}" if purpose else ""
    return f"Skill “{name}”{about} (version {skill.version}, {provenance(skill)})"


def _tokens(part: str) -> int:
    return estimate(f"{part}\n\n").total


OF_A_RUN = "@"


def proposal(name: str, markdown: str, *, run: str, category: str | None, now: datetime) -> Skill:
    """A skill as a run proposes it; writing it again makes a version of the proposal."""
    return Skill(
        kind="skill",
        id=entry_id("proposal", run, name),
        name=proposal_name(name, run),
        purpose=purpose_of(markdown),
        category=category,
        text=markdown.strip(),
        source=f"run {run}",
        approved=False,
        proposed_by=run,
        created=now,
    )


def approved(
    proposed: Skill, *, outcome: str | None, by: str, now: datetime, name: str | None = None
) -> Skill:
    """The skill that a person, or the operator's settings, makes of a proposal.

    Raises:
        NotAllowed: it is no proposal, or the run that made it was not accepted.
        InvalidInput: the name has neither letters nor digits.
    """
    if proposed.approved is not False:
        raise NotAllowed(f"The skill {proposed.name} waits for no approval.")
    if outcome != "accepted":
        ended = f"ended {outcome}" if outcome else "has not ended"
        raise NotAllowed(
            f"The skill {proposed.name} comes from a run that {ended}; only what accepted runs "
            "wrote enters other runs.",
            cure=f"Read it (perdure skills show {proposed.name}) and add it as your own, or "
            f"forget it: perdure skills forget {proposed.name}",
        )
    called = slug(name or plain_name(proposed))
    if not called:
        raise InvalidInput(
            f"The name {name!r} has neither letters nor digits.", cure="Choose another name."
        )
    return proposed.model_copy(
        update={
            # The id that a skill of this name has, so that approval makes its next version.
            "id": f"skill-{called}",
            "name": called,
            "approved": True,
            "version": 1,
            "earlier": (),
            "source": f"run {proposed.proposed_by}, approved by {by}",
            "origins": (Origin(run=proposed.proposed_by, outcome="accepted"),),
            "created": now,
        }
    )


def proposal_name(name: str, run: str) -> str:
    """The name under which a run proposes a skill."""
    return f"{name}{OF_A_RUN}{run}"


def plain_name(skill: Skill) -> str:
    """A skill's name without the run that proposes it."""
    return skill.name.rpartition(OF_A_RUN)[0] or skill.name


def proposals(skills: Iterable[Skill], *, run: str | None = None) -> tuple[Skill, ...]:
    """The skills that wait for approval, of one run or of all."""
    return tuple(
        skill
        for skill in skills
        if skill.approved is False and (run is None or skill.proposed_by == run)
    )


def one_proposal(name: str, waiting: Sequence[Skill]) -> Skill:
    """The proposal that a name means: the whole one, or that of the skill if only one waits.

    Raises:
        NotFound: none is called so.
        InvalidInput: several runs propose a skill of that name.
    """
    wanted = name.strip().casefold()
    exact = [skill for skill in waiting if skill.name.casefold() == wanted]
    found = exact or [skill for skill in waiting if plain_name(skill).casefold() == wanted]
    if not found:
        known = ", ".join(skill.name for skill in waiting[:8]) or "none waits for approval"
        raise NotFound(f"There is no proposed skill {name!r}. Proposed: {known}.")
    if len(found) > 1:
        names = ", ".join(skill.name for skill in found)
        raise InvalidInput(
            f"Several runs propose a skill {name!r}: {names}.", cure="Give the whole name."
        )
    return found[0]
