"""What was learned: entries of memory and skills, with where they come from and what is left."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.memory.entries import (
    Episode,
    Event,
    MemoryEntry,
    OldText,
    Pattern,
    Skill,
    may_enter,
)
from perdure.domain.memory.prompt_blocks import provenance
from perdure.domain.memory.ranking import confidence_left
from perdure.domain.memory.skill_proposals import proposals
from perdure.interfaces.cli.views.formatting import ago, one_line, score
from perdure.interfaces.cli.views.layout import DIM, WARN, line, pairs, stack
from perdure.interfaces.cli.views.listing import Listing

TEXT_WIDTH = 72


def memory_view(entries: Sequence[MemoryEntry], now: datetime, *, none: str) -> RenderableType:
    """One row per entry; `none` says what an empty memory means."""
    if not entries:
        return line(none)
    columns = ("id", "kind", "confidence", "uses", "last used", "from", "text")
    rows = [_row(entry, now) for entry in entries]
    kept_back = sum(not may_enter(entry) for entry in entries)
    note = f"dim rows are not shown to runs: no accepted run wrote them ({kept_back})"
    return stack(
        Listing(columns, rows, right=("confidence", "uses")),
        line((note, DIM)) if kept_back else None,
    )


def skills_view(skills: Sequence[Skill]) -> RenderableType:
    """One row per skill."""
    if not skills:
        return line("No skills. Add one: perdure skills add FILE.md")
    columns = ("name", "version", "effectiveness", "uses", "categories", "from", "purpose")
    rows = [_skill_row(skill) for skill in skills]
    waiting = proposals(skills)
    hint = f"{len(waiting)} from runs wait for approval: perdure skills approve {{}}"
    return stack(
        Listing(columns, rows, right=("version", "effectiveness", "uses")),
        line((hint.format(one_line(waiting[0].name)), DIM)) if waiting else None,
    )


def skill_view(skill: Skill, now: datetime) -> RenderableType:
    """One skill: its facts, then its text."""
    facts = pairs(
        (
            ("skill", Text(skill.name, style="bold")),
            ("purpose", one_line(skill.purpose, 300)),
            ("categories", ", ".join(map(one_line, skill.categories))),
            ("version", str(skill.version)),
            ("deterministic", "yes: runs may skip the evaluation" if skill.deterministic else None),
            ("effectiveness", f"{score(skill.effectiveness)} after {skill.judged} ended runs"),
            ("uses", _uses(skill, now)),
            ("from", " · ".join(filter(None, (_from(skill), one_line(skill.source))))),
            ("earlier versions", _earlier(skill)),
            ("", _warning(skill)),
        )
    )
    return stack(facts, line(), Text(skill.text.rstrip()))


def old_text_view(skill: Skill, old: OldText) -> RenderableType:
    """An earlier version of a skill, and that runs are given another one."""
    facts = pairs(
        (
            ("skill", Text(skill.name, style="bold")),
            ("version", f"{old.version}; runs are given version {skill.version}"),
            ("from", one_line(old.source) or None),
        )
    )
    return stack(facts, line(), Text(old.text.rstrip()))


def entry_data(entry: MemoryEntry, now: datetime) -> dict[str, object]:
    """An entry for programs, with what can be said of it now."""
    return {
        **entry.model_dump(mode="json"),
        "confidence_left": round(confidence_left(entry, now), 4),
        "recalled": may_enter(entry),
    }


def _row(entry: MemoryEntry, now: datetime) -> tuple[Text, ...]:
    cells = (
        entry.id,
        _kind(entry),
        _confidence(entry, now),
        str(entry.uses),
        ago(entry.last_used, now),
        one_line(_from(entry), 60),
        one_line(_told(entry), TEXT_WIDTH),
    )
    style = "" if may_enter(entry) else DIM
    return tuple(Text(cell, style=style) for cell in cells)


def _skill_row(skill: Skill) -> tuple[Text, ...]:
    cells = (
        skill.name,
        str(skill.version),
        score(skill.effectiveness),
        str(skill.uses),
        one_line(", ".join(skill.categories), 40),
        one_line(_from(skill), 60),
        one_line(skill.purpose, TEXT_WIDTH),
    )
    style = "" if may_enter(skill) else DIM
    return tuple(Text(cell, style=style) for cell in cells)


def _kind(entry: MemoryEntry) -> str:
    match entry:
        case Episode() | Skill() | Event():
            return entry.kind
        case Pattern():
            return f"pattern ({entry.state})"
        case _:
            return entry.sort.replace("_", "-")


def _confidence(entry: MemoryEntry, now: datetime) -> str:
    left = confidence_left(entry, now)
    was = f" of {score(entry.confidence)}" if left < entry.confidence else ""
    return f"{score(left)}{was}"


def _told(entry: MemoryEntry) -> str:
    match entry:
        case Episode():
            got = "" if entry.best_score is None else f", {score(entry.best_score)}"
            return f"{entry.goal} ({entry.outcome.replace('_', ' ')}{got}) {entry.text}"
        case Skill():
            return f"{entry.name}: {entry.purpose}"
        case Pattern():
            return entry.text or " and ".join(entry.subject)
        case _:
            return entry.text


def _uses(skill: Skill, now: datetime) -> str:
    last = f", the last one {ago(skill.last_used, now)}" if skill.last_used else ""
    return f"{skill.uses}{last}"


def _from(entry: MemoryEntry) -> str:
    proposed = isinstance(entry, Skill) and entry.approved is False
    return "proposed by a run" if proposed else provenance(entry)


def _earlier(skill: Skill) -> str | None:
    if not skill.earlier:
        return None
    kept = ", ".join(str(old.version) for old in skill.earlier)
    name, newest = one_line(skill.name), skill.earlier[-1].version
    return f"{kept} (perdure skills show {name} --version {newest})"


def _warning(skill: Skill) -> Text | None:
    if may_enter(skill):
        return None
    if skill.approved is False:
        told = f"not given to runs before it is approved: perdure skills approve {skill.name}"
        return Text(told, style=WARN)
    return Text("not given to runs: no accepted run wrote it", style=WARN)
