"""What a judge is asked, and the numbers that its findings get."""

import pytest

from perdure.domain.evaluation.scores import Finding
from perdure.domain.scoring.judging import highest_number


@pytest.mark.parametrize(
    ("given", "ids", "highest"),
    [
        pytest.param(0, ["F1", "F2"], 2, id="new ones"),
        pytest.param(7, [], 7, id="all are settled"),
        pytest.param(7, ["F3"], 7, id="only older ones are open"),
        pytest.param(0, ["F12", "F9", "check:words"], 12, id="a state without the number"),
    ],
)
def test_the_highest_number_of_a_finding_stays_known(
    given: int, ids: list[str], highest: int
) -> None:
    found = [Finding(id=one, severity="blocker", dimension="tone", title="rude") for one in ids]
    assert highest_number(found, least=given) == highest
