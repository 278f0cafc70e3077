"""The shape that a judge is asked for, and what else models put into it."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from perdure.domain.llm.structured_replies import Fields, unread

SCORE_CHOICES = tuple(round(tenth / 10, 1) for tenth in range(11))
Words = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


def _listed(value: object) -> object:
    return () if value is None else value


class _Given(BaseModel):
    # Remarks that nobody asked for do no harm; `surplus` tells of everything else.
    model_config = ConfigDict(frozen=True, extra="ignore")


class GivenScore(_Given):
    """One dimension as the judge scored it, with findings that it put beside the score."""

    name: str
    score: float = Field(strict=True)  # `true` is no score
    gap: Words = ""
    findings: Annotated[tuple["GivenFinding", ...], BeforeValidator(_listed)] = ()


class GivenFinding(_Given):
    """One defect as the judge named it."""

    severity: str = "suggestion"
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
    resolved: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()

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


GivenScore.model_rebuild()


def surplus(fields: Fields) -> tuple[str, ...]:
    """What a reply holds that is in no place for it, each as a sentence."""
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
    lists: Fields = {
        "dimensions": {"type": "array", "items": score},
        "findings": {"type": "array", "items": finding},
        "resolved": {"type": "array", "items": texts},
    }
    return _object(lists, *lists)


def _surplus(fields: Fields, shape: type[BaseModel]) -> list[str]:
    known = tuple(shape.model_fields)
    names = unread(fields, known)
    return [f"Nobody asked for the field {name!r}; allowed: {', '.join(known)}." for name in names]


def _object(properties: dict[str, JsonValue], *required: str) -> Fields:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
