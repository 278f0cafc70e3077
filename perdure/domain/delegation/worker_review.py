"""What a reviewer says of a worker's result and of the success criteria, and what recurs."""

from collections.abc import Collection, Mapping, Sequence

from pydantic import Field, JsonValue

from perdure.domain.delegation.results import Confidence, Defect
from perdure.domain.delegation.spec import CritiqueSettings
from perdure.domain.delegation.summary import shortened
from perdure.domain.evaluation.judge_reply_lines import NOTHING, speaks_against
from perdure.domain.evaluation.scores import known_severity, severity_of
from perdure.domain.evaluation.trajectory import is_score, rounded
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import format_value
from perdure.domain.llm.structured_replies import (
    BadReply,
    Fields,
    denials,
    find_reply,
    unexpected_fields,
)

CATEGORIES = (
    "missing",
    "wrong",
    "incomplete",
    "unsupported",
    "placeholder",
    "format",
    "off_task",
    "other",
)
RECURRING = 2
MOST_PITFALLS = 5
MOST_CATEGORIES = 24
MOST_DEFECTS = 20
GOOD = 0.6
"""Scores from which a critique speaks for the work."""
KEPT_SCORES = 200
MOST_POOR = 8


class Critique(FrozenModel):
    """A reviewer's score of one result, and its defects by category."""

    score: Confidence
    defects: tuple[Defect, ...] = ()

    @property
    def critical(self) -> tuple[Defect, ...]:
        """The defects that must be repaired."""
        return tuple(defect for defect in self.defects if defect.critical)


class Pitfall(FrozenModel):
    """A category of defects: how many results had it, and its newest example."""

    category: str
    seen: int = 1
    example: str = ""


class Reviews(FrozenModel):
    """What reviewers said so far: the newest score by piece of work, and pitfalls."""

    scores: Mapping[str, Confidence] = Field(default={})
    pitfalls: tuple[Pitfall, ...] = ()

    def after(self, piece: str, critique: Critique) -> "Reviews":
        """With the critique of one result; a piece of work has one score, the newest."""
        others = {key: score for key, score in self.scores.items() if key != piece}
        # The newest goes to the end, since the cut takes the oldest.
        kept = list({**others, piece: critique.score}.items())[-KEPT_SCORES:]
        return Reviews(scores=dict(kept), pitfalls=_counted(self.pitfalls, critique.defects))

    def without(self, pieces: Collection[str]) -> "Reviews":
        """The reviews without the scores of work that is given up; pitfalls stay known."""
        left = {key: score for key, score in self.scores.items() if key not in pieces}
        return self.model_copy(update={"scores": left})

    def below(self, least: float) -> tuple[str, ...]:
        """The pieces of work that scored less, the worst first, each with its score."""
        poor = sorted((score, key) for key, score in self.scores.items() if score < least)
        return tuple(f"{key} ({score:.2f})" for score, key in poor[:MOST_POOR])

    @property
    def mean(self) -> float | None:
        """The mean over all pieces of work that were reviewed; None for none."""
        known = list(self.scores.values())
        return rounded(sum(known) / len(known)) if known else None

    @property
    def recurring(self) -> tuple[str, ...]:
        """The pitfalls that later workers are told, most frequent first."""
        often = [item for item in self.pitfalls if item.seen >= RECURRING]
        often.sort(key=lambda item: (-item.seen, item.category))
        return tuple(f"{item.category}: {item.example}" for item in often[:MOST_PITFALLS])


def wants_critique(acceptance: str, settings: CritiqueSettings) -> bool:
    """Whether a result is reviewed: only what has an acceptance can be measured by it."""
    return settings.enabled and bool(acceptance.strip())


def wants_repair(critique: Critique, *, repairs: int, settings: CritiqueSettings) -> bool:
    """Whether the worker repairs its result once more; `repairs` were made already."""
    return bool(critique.critical) and repairs < settings.repairs


def keeps_repair(before: Critique, after: Critique) -> bool:
    """Whether a repaired result replaces the one before: a worse one is discarded."""
    return rounded(after.score) >= rounded(before.score)


def repair_text(critique: Critique) -> str:
    """What the worker is told to repair: the critical defects alone, each with its fix."""
    lines = [
        f"- {item.title}" + (f" Fix: {item.fix}" if item.fix else "") for item in critique.critical
    ]
    return (
        "A reviewer found these defects in your result. Repair exactly these, keep everything else "
        "as it is, and hand back the whole result again:\n" + "\n".join(lines)
    )


def read_critique(text: str) -> Critique | BadReply:
    """Read the critique in a reply, or say why there is none. A failed reviewer gives no score."""
    found = find_reply(text, "score")
    if isinstance(found, BadReply):
        return found
    if found is None:
        return BadReply(("The reply holds no JSON object with a score and defects.",))
    score = found.fields["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not is_score(score):
        return BadReply((f"score: found {format_value(score)}; allowed: a number from 0 to 1.",))
    if problems := _misplaced(found.fields):
        return BadReply(problems)
    given = found.fields.get("defects")
    defects = read_defects(given if isinstance(given, list) else [])
    critique = Critique(score=score, defects=defects)
    beside = f"{text[: found.start]}\n{text[found.end :]}"
    # Only praise is doubted: a wrong bad score costs a repair, a wrong good one the result.
    if score >= GOOD and not critique.critical and (against := _against(found.fields, beside)):
        return BadReply((against,))
    if critique.score >= 1.0 and critique.critical:
        title = critique.critical[0].title
        return BadReply((f"The score is 1, yet {title!r} is called critical.",))
    return critique


def read_defects(given: Sequence[JsonValue]) -> tuple[Defect, ...]:
    """Defects as models give them, objects or texts, the critical ones first.

    Those that say nothing at all are left out; what is only called critical has no words of its
    own, and counts.
    """
    read = [found for item in given if (found := _defect(item)) is not None]
    # Sorted before the cut, so that no critical one is lost to it.
    return tuple(sorted(read, key=lambda item: not item.critical)[:MOST_DEFECTS])


def _misplaced(fields: Fields) -> tuple[str, ...]:
    """What a reply says in a place where it has no meaning."""
    given = fields.get("defects")
    found = [] if given is None or isinstance(given, list) else ["defects: give a list."]
    for item in given if isinstance(given, list) else ():
        severity = item.get("severity") if isinstance(item, dict) else None
        if isinstance(severity, str) and severity.strip() and known_severity(severity) is None:
            found.append(
                f"severity: found {format_value(severity)}; allowed: critical, true or false."
            )
    surplus = unexpected_fields(fields, ("score", "defects"))
    found += [f"Nobody asked for the field {name!r}; allowed: score, defects." for name in surplus]
    return tuple(found)


def _against(fields: Fields, beside: str) -> str:
    """What speaks against a work of a good score without critical defects; empty for nothing."""
    if denied := denials(fields, ("score", "defects")):
        return f"The field {denied[0]!r} speaks against the work, and no defect says why."
    lines = [line.strip(" \t-*•+>#") for line in beside.splitlines()]
    found = next((line for line in lines if speaks_against(line)), "")
    return f"{format_value(found)} stands beside the JSON; put it into defects." if found else ""


def _defect(item: JsonValue) -> Defect | None:
    given = item if isinstance(item, dict) else {"title": item}
    said = (given.get(key) for key in ("title", "detail", "description", "defect"))
    title = next((text.strip() for text in said if isinstance(text, str) and text.strip()), "")
    critical = given.get("critical")
    severity = given.get("severity")
    is_severe = isinstance(severity, str) and severity_of(severity) == "blocker"
    if not title and (critical is True or is_severe):
        title = "a critical defect without words"
    if not title:
        return None
    fix, category = given.get("fix"), given.get("category")
    return Defect(
        category=_category(category if isinstance(category, str) else ""),
        title=title,
        fix=fix.strip() if isinstance(fix, str) else "",
        critical=critical if isinstance(critical, bool) else is_severe,
    )


def _category(said: str) -> str:
    name = "_".join(said.casefold().replace("-", " ").replace("_", " ").split())
    return name[:40] or "other"


def _counted(pitfalls: Sequence[Pitfall], defects: Sequence[Defect]) -> tuple[Pitfall, ...]:
    """The pitfalls with each category of one result counted once."""
    counted = {item.category: item for item in pitfalls}
    for category, defect in {item.category: item for item in defects}.items():
        seen = counted[category].seen + 1 if category in counted else 1
        counted[category] = Pitfall(category=category, seen=seen, example=defect.title[:160])
    kept = sorted(counted.values(), key=lambda item: (-item.seen, item.category))
    return tuple(kept[:MOST_CATEGORIES])


def read_criteria(text: str, criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    """The criteria that are not met, each with what is missing; or why the reply is none.

    Every criterion needs an answer of its own: one that is passed over counts for nothing.
    """
    found = find_reply(text, "criteria")
    if isinstance(found, BadReply):
        return found
    items = None if found is None else found.fields["criteria"]
    if not isinstance(items, list):
        return BadReply(("The reply holds no JSON object with a list of criteria.",))
    return _unmet(items, criteria)


def _unmet(items: Sequence[JsonValue], criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    answers: dict[int, str | None] = {}
    for item in items:
        answer = _answer(item)
        if answer is None or not 0 < answer[0] <= len(criteria):
            return BadReply(
                (f"criteria: {format_value(item)} answers no criterion; give number and met.",)
            )
        number, said = answer
        if number in answers and (answers[number] is None) != (said is None):
            return BadReply((f"Criterion {number} is called met and not met.",))
        answers[number] = said
    silent = [str(number) for number in range(1, len(criteria) + 1) if number not in answers]
    if silent:
        return BadReply((f"No answer for criterion {', '.join(silent)}.",))
    return tuple(
        f"{criterion}" + (f" ({said})" if said else "")
        for number, criterion in enumerate(criteria, start=1)
        if (said := answers[number]) is not None
    )


def _answer(item: JsonValue) -> tuple[int, str | None] | None:
    """The number of a criterion with what is missing, None for nothing; None for no answer."""
    given = item if isinstance(item, dict) else {}
    number, met, missing = given.get("number"), given.get("met"), given.get("missing")
    if isinstance(number, bool) or not isinstance(number, int) or not isinstance(met, bool):
        return None
    # “Met” with something missing contradicts itself, so the reviewer is asked again.
    if met and isinstance(missing, str) and not NOTHING.fullmatch(missing.strip()):
        return None
    return number, None if met else shortened(missing if isinstance(missing, str) else "")
