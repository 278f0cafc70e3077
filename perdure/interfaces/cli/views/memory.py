"""What was learned: memory entries, skills, patterns, and the schedule of pattern mining."""

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
from perdure.domain.memory.patterns import MineReport, proposable
from perdure.domain.memory.prompt_blocks import provenance
from perdure.domain.memory.ranking import confidence_left
from perdure.domain.memory.skills import proposals
from perdure.gateway.types import UpkeepSchedule
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, Listing, line, pairs, stack
from perdure.interfaces.formatting import ago, duration, one_line, plural, score

TEXT_WIDTH = 72


def memory_view(entries: Sequence[MemoryEntry], now: datetime, *, none: str) -> RenderableType:
    """One row for each entry; `none` explains an empty memory."""
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
    """An earlier version of a skill, with a note that runs get another one."""
    facts = pairs(
        (
            ("skill", Text(skill.name, style="bold")),
            ("version", f"{old.version}; runs are given version {skill.version}"),
            ("from", one_line(old.source) or None),
        )
    )
    return stack(facts, line(), Text(old.text.rstrip()))


def entry_data(entry: MemoryEntry, now: datetime) -> dict[str, object]:
    """An entry as data, with its current confidence and whether runs may recall it."""
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
    # By the rule that recall goes by, so that a dim row is exactly one that runs do not get.
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


_STYLES = {"proposed": WARN, "approved": GOOD, "rejected": DIM}
NONE = "No patterns. Look for them: perdure patterns schedule --every 24h --now"


def patterns_view(patterns: Sequence[Pattern]) -> RenderableType:
    """One row for each pattern, and what a person can do with proposals."""
    if not patterns:
        return line(NONE)
    columns = ("id", "kind", "state", "confidence", "seen", "what")
    rows = [_pattern_row(pattern) for pattern in patterns]
    drawn = Listing(columns, rows, right=("confidence", "seen"))
    waiting = next((item for item in patterns if item.state == "proposed"), None)
    if waiting is None:
        return drawn
    way = f"perdure patterns approve {waiting.id} (or reject)"
    return stack(drawn, line((f"make a skill of one: {way}", DIM)))


def schedule_view(schedule: UpkeepSchedule | None, now: datetime) -> RenderableType:
    """How often patterns are mined."""
    if schedule is None:
        return line(
            "Patterns are not looked for. Start with: perdure patterns schedule --every 24h"
        )
    often = "" if schedule.every_s is None else f" every {duration(schedule.every_s)}"
    last = f", the last one {ago(schedule.last_at, now)}" if schedule.last_at else ""
    coming = ""
    if schedule.next_at is not None:
        coming = f", the next in {duration(max(0.0, (schedule.next_at - now).total_seconds()))}"
    paused = " (paused)" if schedule.paused else ""
    done = plural(schedule.looks, "look")
    return line(f"Patterns are looked for{often}{paused}: {done} so far{last}{coming}.")


def mined_view(report: MineReport) -> RenderableType:
    """The result of mining once."""
    new = f"{report.proposed} of them new proposals" if report.proposed else "nothing new"
    found = f"{plural(report.events, 'event')}, {plural(report.found, 'pattern')}, {new}"
    return line(("✓ ", GOOD), f"looked at {found}")


def _pattern_row(pattern: Pattern) -> tuple[Text, ...]:
    weak = pattern.state == "proposed" and not proposable(pattern)
    cells = (
        pattern.id,
        pattern.sort,
        pattern.state,
        score(pattern.confidence),
        str(pattern.seen),
        one_line(pattern.text),
    )
    style = DIM if weak else _STYLES[pattern.state]
    return tuple(Text(cell, style=style if place == 2 else "") for place, cell in enumerate(cells))
