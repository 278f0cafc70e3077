"""Findings of a judge, bound to the parts that they name."""

import pytest

from perdure.domain.evaluation.rubric import Part, PartKind, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, Severity
from perdure.domain.outputs.parts import (
    Version,
    bind_findings,
    failing_parts,
    merge_replies,
    part_evaluation,
    part_text,
)

CHECK = {"check": "length", "unit": "words", "max": 9}


def rubric(*parts: Part) -> Rubric:
    bound = [{"name": f"of {part}", "part": part, "evaluator": CHECK} for part in parts]
    return Rubric.model_validate([*bound, {"name": "tone", "evaluator": {"judge": {}}}])


def judged(*findings: Finding) -> DimensionScore:
    return DimensionScore(name="tone", score=0.6, source="judge", findings=findings)


def finding(location: str, severity: Severity = "important") -> Finding:
    return Finding(
        id="F1", severity=severity, dimension="tone", title="stiff", location=location, fix="relax"
    )


@pytest.mark.parametrize(
    ("kind", "parts", "location", "part"),
    [
        pytest.param("sections", ("Goals", "Risks"), "## Risks", "Risks", id="a heading"),
        pytest.param("sections", ("Risks",), 'section "risks"', "Risks", id="a section in words"),
        pytest.param("json_keys", ("skills",), "key `skills`", "skills", id="a key"),
        pytest.param("lines", (1, 2), "line 2", 2, id="a line"),
        pytest.param("lines", (1, 2), "2", 2, id="a number"),
        pytest.param("sections", ("Risks",), "the end", None, id="elsewhere"),
        pytest.param("sections", ("Risks",), "", None, id="nowhere"),
        pytest.param("whole", ("Risks",), "Risks", None, id="nothing is taken apart"),
    ],
)
def test_a_finding_is_bound_by_its_location(
    kind: PartKind, parts: tuple[Part, ...], location: str, part: Part | None
) -> None:
    (bound,) = bind_findings([judged(finding(location))], rubric(*parts), kind)
    assert [one.part for one in bound.findings] == [part]


def scored(*findings: Finding, **checks: float) -> Evaluation:
    own = (
        DimensionScore(name=f"of {part}", score=score, source="check")
        for part, score in checks.items()
    )
    scores = bind_findings([judged(*findings)], rubric("Goals", "Risks"), "sections")
    return Evaluation(dimensions=(*own, *scores))


@pytest.mark.parametrize(
    ("evaluation", "parts"),
    [
        pytest.param(scored(Goals=1, Risks=0), ["Risks"], id="a check"),
        pytest.param(scored(finding("Goals"), Goals=1, Risks=1), ["Goals"], id="a finding"),
        pytest.param(scored(finding("Goals", "suggestion"), Goals=1, Risks=1), [], id="no defect"),
        pytest.param(scored(finding("the end"), Goals=1, Risks=1), [], id="a finding elsewhere"),
    ],
)
def test_failing_parts(evaluation: Evaluation, parts: list[Part]) -> None:
    found = failing_parts(rubric("Goals", "Risks"), evaluation)
    assert [one.part for one in found] == parts


def test_what_is_said_of_one_part_alone() -> None:
    evaluation = scored(finding("Goals"), finding("Risks"), Goals=1, Risks=0)
    said = part_evaluation(rubric("Goals", "Risks"), evaluation, "Goals")
    assert [item.name for item in said.dimensions] == ["of Goals", "tone"]
    assert [one.location for one in said.findings] == ["Goals"]


def passing(text: str) -> Evaluation:
    """Checks that every section passes."""
    assert part_text(text, "Goals", "sections")
    return Evaluation(
        dimensions=tuple(
            DimensionScore(name=f"of {part}", score=1.0, source="check")
            for part in ("Goals", "Risks")
        )
    )


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param("b", "## Goals\n\nb\n\n## Risks\nr", id="an answer to a finding is taken"),
        pytest.param("a", "## Goals\na\n## Risks\nr", id="the same again changes nothing"),
    ],
)
def test_a_part_that_a_judge_named_may_change_without_scoring_higher(reply: str, text: str) -> None:
    kept = Version("## Goals\na\n## Risks\nr", scored(finding("Goals"), Goals=1, Risks=1))
    merged = merge_replies(
        rubric("Goals", "Risks"),
        kept,
        {"Goals": reply, "Risks": "other"},
        kind="sections",
        evaluate=passing,
    )
    assert merged.text == text
