"""How many tokens a draft or a reply with one part may use."""

import pytest

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.outputs.parts import PART_TOKENS, draft_tokens, part_tokens


def _limited(part: int, **length: object) -> dict[str, object]:
    return {
        "name": f"length {part} {length}",
        "part": part,
        "evaluator": {"check": "length", **length},
    }


@pytest.mark.parametrize(
    ("rows", "parts", "draft"),
    [
        pytest.param([_limited(1, unit="words", max=10)], [72], 72, id="words"),
        pytest.param([_limited(1, unit="chars", max=100)], [132], 132, id="characters"),
        pytest.param(
            [_limited(1, unit="words", max=10), _limited(1, unit="chars", max=20)],
            [52],
            52,
            id="the tighter one",
        ),
        pytest.param(
            [_limited(1, unit="words", max=10), _limited(2, unit="words", min=3)],
            [72, PART_TOKENS["lines"]],
            None,
            id="a part without a bound",
        ),
        pytest.param(
            [_limited(1, unit="sentences", max=1)], [PART_TOKENS["lines"]], None, id="sentences"
        ),
    ],
)
def test_replies_are_capped_by_what_their_checks_permit(
    rows: list[dict[str, object]], parts: list[int], draft: int | None
) -> None:
    rubric = Rubric.model_validate(rows)
    assert [part_tokens(rubric, part, "lines") for part in rubric.parts] == parts
    assert draft_tokens(rubric) == draft


def test_a_section_without_a_bound_may_be_longer_than_a_line() -> None:
    rubric = Rubric.model_validate([{**_limited(1, unit="lines", max=3), "part": "Risks"}])
    assert part_tokens(rubric, "Risks", "sections") == PART_TOKENS["sections"]
    assert PART_TOKENS["sections"] > PART_TOKENS["lines"]
