"""Reads a judge's reply: structured, or text in its labelled form; or says why it is none.

Problems are sentences for the one time that the judge is asked again. A reply that is still bad
then is a failed evaluator, never a score.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from perdure.domain.evaluation import DimensionScore, Finding, Severity
from perdure.domain.labelled_reply import read_labelled
from perdure.domain.problems import problems_of
from perdure.domain.progress import is_score, rounded
from perdure.domain.strict_json import RepeatedName, read_json

SCORE_CHOICES = tuple(round(tenth / 10, 1) for tenth in range(11))
_SEVERITIES: dict[str, Severity] = {
    "blocker": "blocker",
    "critical": "blocker",
    "important": "important",
    "major": "important",
    "high": "important",
}


class _Given(BaseModel):
    # What a model adds beyond what it was asked for does no harm.
    model_config = ConfigDict(frozen=True, extra="ignore")


class GivenScore(_Given):
    """One dimension as the judge scored it."""

    name: str
    score: float = Field(strict=True)  # `true` is no score
    gap: str = ""


class GivenFinding(_Given):
    """One defect as the judge named it."""

    severity: str = "suggestion"
    dimension: str
    title: str
    detail: str = ""
    fix: str = ""
    location: str = ""


class GivenReply(_Given):
    """The shape that a judge is asked for."""

    dimensions: tuple[GivenScore, ...]
    findings: tuple[GivenFinding, ...] = ()
    resolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A usable reply: one score for each dimension that was asked for, in their order."""

    scores: tuple[DimensionScore, ...]
    resolved: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All new findings."""
        return tuple(finding for score in self.scores for finding in score.findings)


@dataclass(frozen=True, slots=True)
class BadReply:
    """Why a reply is no judgement."""

    problems: tuple[str, ...]


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


def read_judgement(text: str, asked: Asked) -> Judgement | BadReply:
    """The judgement in a reply, or every problem with it."""
    given = _parse(text, asked.dimensions)
    if isinstance(given, BadReply):
        return given
    by_name = {name.casefold(): name for name in asked.dimensions}
    scores = {by_name.get(item.name.casefold(), item.name): item for item in given.dimensions}
    findings = _numbered(given.findings, by_name, asked.next_finding)
    problems = (*_score_problems(scores, given, asked), *_finding_problems(findings, scores, asked))
    if problems:
        return BadReply(problems)
    known = {one.casefold(): one for one in asked.open_findings}
    resolved = tuple(known[one.casefold()] for one in given.resolved if one.casefold() in known)
    return Judgement(
        scores=tuple(_score(name, scores[name], findings) for name in asked.dimensions),
        resolved=tuple(dict.fromkeys(resolved)),
    )


def judge_schema(dimensions: Sequence[str]) -> dict[str, JsonValue]:
    """The JSON schema of a reply; scores are an enumeration, which small grammars enforce too."""
    texts: dict[str, JsonValue] = {"type": "string"}
    names: dict[str, JsonValue] = {"enum": list(dimensions)}
    scores: dict[str, JsonValue] = {"enum": list(SCORE_CHOICES)}
    severities: dict[str, JsonValue] = {"enum": ["blocker", "important", "suggestion"]}
    score = _object({"name": names, "score": scores, "gap": texts}, "name", "score", "gap")
    finding = _object(
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
    lists: dict[str, JsonValue] = {
        "dimensions": {"type": "array", "items": score},
        "findings": {"type": "array", "items": finding},
        "resolved": {"type": "array", "items": texts},
    }
    return _object(lists, *lists)


def severity_of(word: str) -> Severity:
    """The severity that a word means; low, minor and unknown ones are suggestions."""
    return _SEVERITIES.get(word.strip().casefold(), "suggestion")


def _parse(text: str, dimensions: Sequence[str]) -> GivenReply | BadReply:
    try:
        value = _json_in(text)
    except RepeatedName as error:
        return BadReply((f"The reply cannot be read: {error}.",))
    if value is None:
        value = read_labelled(text, dimensions)
    if value is None:
        return BadReply(("The reply is neither JSON of the shape asked for nor labelled text.",))
    try:
        return GivenReply.model_validate(value)
    except ValidationError as error:
        return BadReply(tuple(str(problem) for problem in problems_of(error, value)))


def _json_in(text: str) -> JsonValue | None:
    """The JSON object in a reply, also between fences or words; None without one."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = read_json(text[start : end + 1])
    except RepeatedName:
        raise
    except (ValueError, RecursionError):
        return None
    return value


def _score_problems(
    scores: dict[str, GivenScore], given: GivenReply, asked: Asked
) -> tuple[str, ...]:
    if not given.dimensions:
        return ("No dimension is scored.",)
    found: list[str] = []
    missing = [name for name in asked.dimensions if name not in scores]
    if missing:
        found.append(f"No score for: {', '.join(missing)}.")
    for name, item in scores.items():
        if name not in asked.dimensions:
            found.append(f"{name} was not asked for; score {', '.join(asked.dimensions)}.")
        elif not is_score(item.score):
            found.append(f"The score {item.score} of {name} is not between 0 and 1.")
        elif item.score < 1.0 and not item.gap.strip():
            found.append(f"{name} is scored {item.score:g}, but no gap says what is missing.")
    if len(scores) < len(given.dimensions):
        found.append("A dimension is scored twice.")
    return tuple(found)


def _finding_problems(
    findings: Sequence[Finding], scores: dict[str, GivenScore], asked: Asked
) -> tuple[str, ...]:
    found: list[str] = []
    for finding in findings:
        item = scores.get(finding.dimension)
        if finding.dimension not in asked.dimensions:
            name = finding.dimension
            found.append(f"The finding {finding.title!r} is about {name}, which is no dimension.")
        elif finding.severity == "blocker" and item and item.score >= asked.pass_score:
            passes = f"{finding.dimension} passes with {item.score:g}"
            found.append(f"{passes}, yet {finding.title!r} is called a blocker of it.")
    return tuple(found)


def _numbered(
    given: Sequence[GivenFinding], names: dict[str, str], first: int
) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            id=f"F{number}",
            severity=severity_of(item.severity),
            dimension=names.get(item.dimension.casefold(), item.dimension),
            title=item.title,
            detail=item.detail,
            fix=item.fix,
            location=item.location,
        )
        for number, item in enumerate(given, start=first)
    )


def _score(name: str, given: GivenScore, findings: Sequence[Finding]) -> DimensionScore:
    return DimensionScore(
        name=name,
        score=rounded(given.score),
        source="judge",
        gap=given.gap.strip(),
        findings=tuple(finding for finding in findings if finding.dimension == name),
    )


def _object(properties: dict[str, JsonValue], *required: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
