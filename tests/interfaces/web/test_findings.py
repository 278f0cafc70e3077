"""What became of findings between two iterations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.interfaces.web.run.findings import compared

A = {"id": "a", "severity": "major", "title": "No colour", "fix": "Name one."}
B = {"id": "b", "severity": "minor", "title": "Long"}
UNNAMED = {"severity": "minor", "title": "Stiff", "location": "line 2"}


@pytest.mark.parametrize(
    ("now", "before", "told"),
    [
        ([], None, []),
        ([A], None, [("No colour", "new")]),
        ([A], [A], [("No colour", "still open")]),
        ([], [A], [("No colour", "resolved")]),
        ([B, A], [A], [("Long", "new"), ("No colour", "still open")]),
        ([A], [B, A], [("No colour", "still open"), ("Long", "resolved")]),
        ([UNNAMED], [UNNAMED], [("Stiff", "still open")]),
        ([UNNAMED], [{**UNNAMED, "location": "line 9"}], [("Stiff", "new"), ("Stiff", "resolved")]),
        ([{"title": None, "severity": 3}], None, [("", "new")]),
    ],
)
def test_standings(
    now: list[dict[str, str]],
    before: list[dict[str, str]] | None,
    told: list[tuple[str, str]],
) -> None:
    assert [(one.title, one.standing) for one in compared(now, before)] == told


NAMED = st.sampled_from("abcdef").map(lambda name: {"id": name, "title": name})
IDS = st.lists(NAMED, unique_by=str)


@given(IDS, IDS)
def test_every_finding_has_one_standing(
    now: list[dict[str, str]], before: list[dict[str, str]]
) -> None:
    found = compared(now, before)
    assert sorted(one.title for one in found) == sorted(
        {one["id"] for one in now} | {one["id"] for one in before}
    )
    assert {one.title for one in found if one.standing == "resolved"} == {
        one["id"] for one in before
    } - {one["id"] for one in now}
