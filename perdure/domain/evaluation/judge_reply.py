"""Reads a judge's reply: structured, or text in its labelled form; or says why it is none.

Whatever is not understood is a problem, told the one time that the judge is asked again. A reply
that is still bad then is a failed evaluator, never a score. Slips are problems of form alone: the
scores beside them are clear, so a second slip costs the explanation and not the run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perdure.domain.evaluation.judge_reply_lines import holds_finding
from perdure.domain.evaluation.judge_reply_text import has_scores_label, left_out, read_labelled
from perdure.domain.evaluation.rubric import meant_name
from perdure.domain.evaluation.scores import DimensionScore, Finding, Severity, known_severity
from perdure.domain.evaluation.trajectory import is_score, rounded
from perdure.domain.llm.structured_replies import (
    BadReply,
    Fields,
    denials,
    find_reply,
    object_schema,
    shaped,
    unexpected_fields,
)

SCORE_CHOICES = tuple(round(tenth / 10, 1) for tenth in range(11))
# Judges write null where they have nothing to say: that is a slip at most, and costs no score.
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


def _listed(value: object) -> object:
    return () if value is None else value


def _ids(value: object) -> object:
    # Without the brackets of a list it is still plain which findings are meant.
    return value.replace(",", " ").split() if isinstance(value, str) else _listed(value)


class _Given(BaseModel):
    # Extra remarks do no harm; `surplus` reports everything else.
    model_config = ConfigDict(frozen=True, extra="ignore")


class GivenScore(_Given):
    """One dimension as the judge scored it, with findings that it put beside the score."""

    name: str
    score: float = Field(strict=True)  # `true` is no score
    gap: Words = ""
    findings: Annotated[tuple["GivenFinding", ...], BeforeValidator(_listed)] = ()


class GivenFinding(_Given):
    """One defect as the judge named it."""

    # A null is a word that nobody knows, so it blocks acceptance: not the default.
    severity: Words = "suggestion"
    dimension: Words = ""
    title: Words = ""
    detail: Words = ""
    fix: Words = ""
    location: Words = ""

    @property
    def words(self) -> str:
        """What it is, in its first words."""
        said = (self.title, self.detail, self.fix, self.location)
        return next((one.strip() for one in said if one.strip()), "")


class GivenReply(_Given):
    """The shape that a judge is asked for."""

    dimensions: tuple[GivenScore, ...]
    findings: Annotated[tuple[GivenFinding, ...], BeforeValidator(_listed)] = ()
    resolved: Annotated[tuple[str, ...], BeforeValidator(_ids)] = ()

    def placed(self, asked: Sequence[str]) -> tuple[GivenFinding, ...]:
        """All findings, each with the dimension that it stands beside or can only be about."""
        alone = asked[0] if len(asked) == 1 else ""
        beside = tuple(
            one.model_copy(update={"dimension": one.dimension or score.name})
            for score in self.dimensions
            for one in score.findings
        )
        named = tuple(
            one.model_copy(update={"dimension": one.dimension or alone}) for one in self.findings
        )
        return (*named, *beside)


# It names `GivenFinding`, which is defined below it.
GivenScore.model_rebuild()


def surplus(fields: Fields) -> tuple[str, ...]:
    """What a reply holds in the wrong place, each as a sentence."""
    found = [*_surplus(fields, GivenReply)]
    for key, shape in (("dimensions", GivenScore), ("findings", GivenFinding)):
        items = fields.get(key)
        for item in items if isinstance(items, list) else ():
            found += _surplus(item, shape) if isinstance(item, dict) else ()
    return tuple(dict.fromkeys(found))


def judge_schema(dimensions: Sequence[str]) -> Fields:
    """The JSON schema of a reply; scores are an enumeration, which small grammars enforce too."""
    texts: Fields = {"type": "string"}
    names: Fields = {"enum": list(dimensions)}
    scores: Fields = {"enum": list(SCORE_CHOICES)}
    severities: Fields = {"enum": ["blocker", "important", "suggestion"]}
    score = object_schema({"name": names, "score": scores, "gap": texts}, "name", "score", "gap")
    finding = object_schema(
        {
            "severity": severities,
            "dimension": names,
            "title": texts,
            "detail": texts,
            "fix": texts,
            "location": texts,
        },
        *("severity", "dimension", "title", "fix"),
    )
    lists: Fields = {
        "dimensions": {"type": "array", "items": score},
        "findings": {"type": "array", "items": finding},
        "resolved": {"type": "array", "items": texts},
    }
    return object_schema(lists, *lists)


def _surplus(fields: Fields, shape: type[BaseModel]) -> list[str]:
    known = tuple(shape.model_fields)
    names = unexpected_fields(fields, known)
    return [f"Nobody asked for the field {name!r}; allowed: {', '.join(known)}." for name in names]


__all__ = ["Asked", "BadReply", "Judgement", "read_judgement"]

NO_WORDS = "a finding without words"
GOOD = 0.7
"""Scores from which a reply speaks for the work."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A usable reply: one score for each dimension that was asked for, in their order.

    `slips` are what is wrong with its form: worth a second question, and no more than that.
    """

    scores: tuple[DimensionScore, ...]
    resolved: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for score in self.scores for finding in score.findings)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the judge was asked.

    Args:
        dimensions: the names to be scored.
        open_findings: ids that the judge may call resolved.
        next_finding: the number of the next new finding; ids are run-wide (`F1`, `F2`, …).
        pass_score: the score that means pass, which no blocker may stand beside.
    """

    dimensions: tuple[str, ...]
    open_findings: Collection[str] = field(default=())
    next_finding: int = 1
    pass_score: float = 1.0

    def name(self, said: str) -> str:
        """The name of the dimension that is meant, or what was said."""
        return meant_name(said, self.dimensions) or said


def read_judgement(text: str, asked: Asked) -> Judgement | BadReply:
    """The judgement in a reply, or every problem with it, slips included."""
    given = _parse(text, asked.dimensions)
    if isinstance(given, BadReply):
        return given
    scores = {asked.name(item.name): item for item in given.dimensions}
    findings = _numbered(given.placed(asked.dimensions), asked)
    slips = (*_gap_slips(scores), *_finding_slips(given.findings))
    problems = (
        *_score_problems(scores, given, asked),
        *_gap_problems(scores),
        *_finding_problems(findings, scores, asked),
    )
    if problems:
        return BadReply((*problems, *slips))
    # Ids that are not open are passed over: they close nothing, and so do no harm.
    known = {one.casefold(): one for one in asked.open_findings}
    resolved = (known.get(one.strip().casefold()) for one in given.resolved)
    return Judgement(
        scores=tuple(_score(name, scores[name], findings) for name in asked.dimensions),
        resolved=tuple(dict.fromkeys(one for one in resolved if one is not None)),
        slips=slips,
    )


def _parse(text: str, dimensions: Sequence[str]) -> GivenReply | BadReply:
    """The reply in the structured shape, whichever way it came."""
    # JSON first: what stands around it is read only for what would speak against its scores.
    found = find_reply(text, "dimensions")
    if isinstance(found, BadReply):
        return found
    if found is not None:
        around = f"{text[: found.start]}\n{text[found.end :]}"
        if has_scores_label(around):
            return BadReply(("The reply gives its scores twice, as JSON and under a label.",))
        given = shaped(found.fields, GivenReply)
        problems = (*surplus(found.fields), *left_out(around, dimensions))
        if isinstance(given, GivenReply):
            problems = (*problems, *_denied(found.fields, given))
        return BadReply(problems) if problems and not isinstance(given, BadReply) else given
    labelled = read_labelled(text, dimensions)
    if labelled is None:
        return BadReply(("The reply is neither JSON of the shape asked for nor labelled text.",))
    given = shaped(labelled.fields, GivenReply)
    if labelled.problems:
        if isinstance(given, BadReply):
            return BadReply(labelled.problems)
        scored = {item.name for item in given.dimensions}  # as the dimensions are written
        return BadReply((*_missing(scored, dimensions), *labelled.problems))
    return given


def _denied(fields: Fields, given: GivenReply) -> tuple[str, ...]:
    """A verdict that rejects the work although neither scores nor findings do."""
    # Where scores or findings say no as well, nothing is hidden, and no second question is needed.
    if any(one.score < GOOD for one in given.dimensions):
        return ()
    if any(_severity(one.severity) != "suggestion" for one in given.placed(())):
        return ()
    found = [*denials(fields, GivenReply.model_fields)]
    items = fields.get("dimensions")
    for item in items if isinstance(items, list) else ():
        found += denials(item, GivenScore.model_fields) if isinstance(item, dict) else ()
    return tuple(
        f"The field {name!r} speaks against the work, and no score or finding says why."
        for name in dict.fromkeys(found)
    )


def _missing(scored: Collection[str], dimensions: Sequence[str]) -> tuple[str, ...]:
    missing = [name for name in dimensions if name not in scored]
    return (f"No score for: {', '.join(missing)}.",) if missing else ()


def _score_problems(
    scores: dict[str, GivenScore], given: GivenReply, asked: Asked
) -> tuple[str, ...]:
    if not given.dimensions:
        return ("No dimension is scored.",)
    found = list(_missing(scores, asked.dimensions))
    for name, item in scores.items():
        if name not in asked.dimensions:
            found.append(f"{name} was not asked for; score {', '.join(asked.dimensions)}.")
        elif not is_score(item.score):
            found.append(f"The score {item.score} of {name} is not between 0 and 1.")
    if len(scores) < len(given.dimensions):
        found.append("A dimension is scored twice.")
    return tuple(found)


def _gap_problems(scores: dict[str, GivenScore]) -> tuple[str, ...]:
    return tuple(
        f"The gap of {name} holds a finding ({item.gap.strip()[:80]!r}); put it into findings."
        for name, item in scores.items()
        if holds_finding(item.gap.strip())
    )


def _gap_slips(scores: dict[str, GivenScore]) -> tuple[str, ...]:
    return tuple(
        f"{name} is scored {item.score:g}, but no gap says what is missing."
        for name, item in scores.items()
        if item.score < 1.0 and not item.gap.strip()
    )


def _finding_slips(findings: Sequence[GivenFinding]) -> tuple[str, ...]:
    found: list[str] = []
    for item in findings:
        if not item.words:
            found.append(f"A finding ({item.severity}) has no title.")
        if known_severity(item.severity) is None:
            allowed = "blocker, important, suggestion"
            found.append(f"severity: found {item.severity[:40]!r}; allowed: {allowed}.")
    return tuple(found)


def _finding_problems(
    findings: Sequence[Finding], scores: dict[str, GivenScore], asked: Asked
) -> tuple[str, ...]:
    found: list[str] = []
    for finding in findings:
        item = scores.get(finding.dimension)
        if finding.dimension not in asked.dimensions:
            name = finding.dimension or "nothing"
            found.append(f"The finding {finding.title!r} is about {name}, which is no dimension.")
        elif finding.severity == "blocker" and item and item.score >= asked.pass_score:
            passes = f"{finding.dimension} passes with {item.score:g}"
            found.append(f"{passes}, yet {finding.title!r} is called a blocker of it.")
    return tuple(found)


def _numbered(given: Sequence[GivenFinding], asked: Asked) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            id=f"F{number}",
            severity=_severity(item.severity),
            dimension=asked.name(item.dimension),
            # Kept without words too: a blocker that nobody explains is one all the same.
            title=item.words or NO_WORDS,
            detail=item.detail,
            fix=item.fix,
            location=item.location,
        )
        for number, item in enumerate(given, start=asked.next_finding)
    )


def _severity(word: str) -> Severity:
    """The severity of a word; an unknown word may mean a blocker, so it prevents acceptance."""
    return known_severity(word) or "important"


def _score(name: str, given: GivenScore, findings: Sequence[Finding]) -> DimensionScore:
    return DimensionScore(
        name=name,
        score=rounded(given.score),
        source="judge",
        gap=given.gap.strip(),
        findings=tuple(finding for finding in findings if finding.dimension == name),
    )
