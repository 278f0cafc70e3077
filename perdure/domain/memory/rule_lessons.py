"""Lessons that rules draw from a run's history, without asking a model.

Every id is made from the run and the rule, so that a repeated step writes the same entries again.
Lessons carry no figures that a run measured: with them the same lesson of another run would be a
different one, and would not reinforce it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from pydantic import AwareDatetime, JsonValue

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.evaluation.scores import Severity
from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.memory.entries import Episode, Event, Learning, Origin, Sort
from perdure.domain.turns.records import IterationRecord

SEVERITIES: Mapping[str, Severity] = MappingProxyType(
    {"blocker": "blocker", "important": "important", "suggestion": "suggestion"}
)


class EndedRun(FrozenModel):
    """The run that just ended, as its last step knows it.

    `unwritten` are the records that the store may not have yet.
    """

    id: str
    kind: str
    goal: str
    category: str | None = None
    outcome: Outcome
    reason: str
    best_score: float | None = None
    best_iteration: int | None = None
    frame: str | None = None
    unwritten: tuple[IterationRecord, ...] = ()
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime


class PastEvent(FrozenModel):
    """One finding of an iteration, as the rules need it."""

    id: str
    severity: Severity
    dimension: str
    title: str
    fix: str = ""


class RunHistory(FrozenModel):
    """An ended run with all its iterations, in order."""

    run: EndedRun
    records: tuple[IterationRecord, ...] = ()

    @property
    def scored(self) -> tuple[IterationRecord, ...]:
        return tuple(record for record in self.records if record.score is not None)

    @property
    def best(self) -> IterationRecord | None:
        """The iteration that the run returned as its best."""
        marked = self.run.best_iteration
        return next((record for record in self.records if record.index == marked), None)

    @property
    def findings(self) -> tuple[PastEvent, ...]:
        """Every finding that was ever open, once, in the order in which they came up."""
        found = (noted for record in self.records for noted in noted_in(record))
        return tuple({noted.id: noted for noted in found}.values())


def course_of(run: EndedRun, stored: Iterable[IterationRecord]) -> RunHistory:
    """Put stored and unwritten records together; the unwritten ones are newer."""
    records = {record.index: record for record in (*stored, *run.unwritten)}
    return RunHistory(run=run, records=tuple(record for _, record in sorted(records.items())))


def noted_in(record: IterationRecord) -> tuple[PastEvent, ...]:
    """The findings that were open at the end of an iteration; unreadable ones are left out."""
    return tuple(
        noted for raw in record.findings if (noted := _noted(raw)) is not None and noted.title
    )


def change(before: IterationRecord, after: IterationRecord) -> float:
    """How much the score rose from one iteration to another, rounded as everywhere."""
    return rounded((after.score or 0.0) - (before.score or 0.0))


def _noted(raw: Mapping[str, JsonValue]) -> PastEvent | None:
    severity = SEVERITIES.get(str(raw.get("severity")))
    if severity is None:
        return None
    dimension, title = str(raw.get("dimension") or ""), str(raw.get("title") or "")
    return PastEvent(
        id=str(raw.get("id") or f"{dimension}: {title}"),
        severity=severity,
        dimension=dimension,
        title=title,
        fix=str(raw.get("fix") or ""),
    )


DROP = 0.1
DROP_CONFIDENCE = 0.7
FLAT = 0.02
FLAT_ITERATIONS = 3
FLAT_CONFIDENCE = 0.5
BLOCKER_ITERATIONS = 2
BLOCKER_CONFIDENCE = 0.6
ASKED_FROM_ITERATIONS = 2
ASKED_FROM_FINDINGS = 3
LESSONS_BY_RULE = 3

GOAL_CHARACTERS = 120
TITLE_CHARACTERS = 100
TEXT_CHARACTERS = 600
TITLES_SHOWN = 3
ID_CHARACTERS = 20

# Not the digits of a name, as in UTF-8 or sha256.
_FIGURE = re.compile(r"(?<!\w)(?<!\w-)\d+(?:[.,:]\d+)*(?!\w)")
_ANY = "…"


def entry_id(*parts: str) -> str:
    """The id of what these parts name: equal parts give an equal id."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:ID_CHARACTERS]


def lessons_of(course: RunHistory) -> tuple[Learning, ...]:
    """The learnings that follow from scores and findings alone; at most three by each rule."""
    return (*_drops(course), *_flat_ends(course), *_stubborn_blockers(course))


def is_worth_asking(course: RunHistory) -> bool:
    """Whether a model may find more: there were several iterations, and enough went wrong."""
    return (
        len(course.records) >= ASKED_FROM_ITERATIONS and len(course.findings) >= ASKED_FROM_FINDINGS
    )


def episode_of(course: RunHistory) -> Episode:
    """The run in short: what was asked, how it ended, what worked."""
    run = course.run
    return Episode(
        kind="episode",
        id=entry_id(run.id, "episode"),
        category=run.category,
        text=clipped_line(" ".join(_what_worked(course)), TEXT_CHARACTERS),
        created=run.ended_at,
        origins=(origin_of(run),),
        goal=clipped_line(run.goal, GOAL_CHARACTERS * 2),
        outcome=run.outcome,
        best_score=run.best_score,
    )


def event_of(run: EndedRun) -> Event:
    """That the run was asked for and ended, for mining; its time is when it was asked for."""
    return Event(
        kind="event",
        id=entry_id(run.id, "event"),
        category=run.category,
        text=clipped_line(run.goal, GOAL_CHARACTERS),
        created=run.started_at or run.ended_at,
        origins=(origin_of(run),),
        outcome=run.outcome,
    )


def learning(run: EndedRun, rule: str, *, sort: Sort, text: str, confidence: float) -> Learning:
    """One learning of a run; `rule` tells it apart from the run's other ones."""
    # Texts of rules hold no measured figures: near-duplicates must agree in figures to strengthen
    # each other.
    return Learning(
        kind="learning",
        id=entry_id(run.id, rule),
        sort=sort,
        category=run.category,
        text=clipped_line(text, TEXT_CHARACTERS),
        confidence=confidence,
        created=run.ended_at,
        origins=(origin_of(run),),
    )


def origin_of(run: EndedRun) -> Origin:
    """Where an entry comes from."""
    return Origin(run=run.id, outcome=run.outcome)


def _drops(course: RunHistory) -> Iterator[Learning]:
    """A score that fell by more than 0.1 is something to avoid; the deepest falls first."""
    falls = [(a, b) for a, b in pairwise(course.scored) if change(a, b) < -DROP]
    for before, after in sorted(falls, key=lambda pair: change(*pair))[:LESSONS_BY_RULE]:
        parts = [name for name, _ in _moved(before, after, rising=False)]
        text = (
            f"A revision of {_quoted(course.run.goal)} made it worse{_in_words(parts)}. Keep what "
            f"had passed while fixing the rest.{_titles('New then', _new(before, after))}"
        )
        yield learning(
            course.run,
            f"drop:{after.index}",
            sort="anti_pattern",
            text=text,
            confidence=DROP_CONFIDENCE,
        )


def _flat_ends(course: RunHistory) -> Iterator[Learning]:
    """Three scored iterations or more, and the last two nearly equal: more rounds do not help."""
    scored = course.scored
    if len(scored) < FLAT_ITERATIONS or abs(change(*scored[-2:])) > FLAT:
        return
    left = noted_in(scored[-1])
    text = (
        f"More rounds of the same gained nothing in {_quoted(course.run.goal)}. Change the "
        f"approach, or stop there.{_titles('Still open', left)}"
    )
    yield learning(course.run, "flat", sort="heuristic", text=text, confidence=FLAT_CONFIDENCE)


def _stubborn_blockers(course: RunHistory) -> Iterator[Learning]:
    """A blocker that two iterations left open is something to avoid from the start."""
    blockers = [
        noted
        for record in course.records
        # Once for each iteration: it is iterations that are counted below.
        for noted in {one.id: one for one in noted_in(record)}.values()
        if noted.severity == "blocker"
    ]
    rounds = Counter(noted.id for noted in blockers)
    newest = {noted.id: noted for noted in blockers}
    for identity, count in rounds.most_common(LESSONS_BY_RULE):
        # The counts fall: no later one is higher.
        if count < BLOCKER_ITERATIONS:
            return
        noted = newest[identity]
        cure = f" What helps: {clipped_line(noted.fix, TITLE_CHARACTERS * 2)}" if noted.fix else ""
        yield learning(
            course.run,
            f"blocker:{identity}",
            sort="anti_pattern",
            text=(
                f"In {_quoted(course.run.goal)} the blocker {_quoted(_unmeasured(noted.title))} "
                f"({noted.dimension}) stayed open through several iterations. Deal with it "
                f"first.{cure}"
            ),
            confidence=BLOCKER_CONFIDENCE,
        )


def _what_worked(course: RunHistory) -> Iterator[str]:
    """From the first scored iteration to the best one: what rose, and what was settled."""
    first, best = next(iter(course.scored), None), course.best
    if first is None or best is None or best.score is None:
        return
    if best.index == first.index:
        yield f"The first version was the best, at {_score(best)}."
        return
    parts = [f"{name} {figures}" for name, figures in _moved(first, best, rising=True)]
    rounds = len(course.records)
    yield (
        f"From {_score(first)} to {_score(best)} in iteration {best.index} of "
        f"{rounds}{_in_words(parts)}."
    )
    settled = _new(best, first)
    if settled:
        yield f"What helped:{_titles('', settled, fixes=True)}"


def _moved(
    before: IterationRecord, after: IterationRecord, *, rising: bool
) -> list[tuple[str, str]]:
    """The dimensions that rose (or fell) between two iterations, the largest moves first."""
    moves: list[tuple[float, str, str]] = []
    for name, new in after.dimensions.items():
        old = before.dimensions.get(name)
        if old is None:
            continue
        by = rounded(new.score - old.score)
        if by and (by > 0) is rising:
            moves.append((-abs(by), name, f"{old.score:.2f} → {new.score:.2f}"))
    return [(name, figures) for _, name, figures in sorted(moves)]


def _new(before: IterationRecord, after: IterationRecord) -> list[PastEvent]:
    """What is open after one iteration and was not open after the other."""
    known = {noted.id for noted in noted_in(before)}
    return [noted for noted in noted_in(after) if noted.id not in known]


def _titles(word: str, findings: Sequence[PastEvent], *, fixes: bool = False) -> str:
    if not findings:
        return ""
    shown = [
        # What would put it right has the limit alone, where a title has what was measured as well.
        clipped_line(
            (noted.fix if fixes or _FIGURE.search(noted.title) else "") or _unmeasured(noted.title),
            TITLE_CHARACTERS,
        )
        for noted in findings[:TITLES_SHOWN]
    ]
    more = " and more" if len(findings) > TITLES_SHOWN else ""
    said = "; ".join(text.rstrip(".") for text in shown)
    return f" {word}{': ' if word else ''}{said}{more}."


def _unmeasured(title: str) -> str:
    """A finding's title as another run would have it: without its figures."""
    return _FIGURE.sub(_ANY, title)


def _in_words(parts: Sequence[str]) -> str:
    return f" ({', '.join(parts[:TITLES_SHOWN])})" if parts else ""


def _score(record: IterationRecord) -> str:
    return "none" if record.score is None else f"{record.score:.2f}"


def _quoted(text: str) -> str:
    return f"“{clipped_line(text, GOAL_CHARACTERS)}”"
