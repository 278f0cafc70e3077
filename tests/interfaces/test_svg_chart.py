"""Charts: everything drawn lies inside, names keep apart, values stand where the scale says."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from perdure.interfaces.svg_chart import line_chart, log_scale, share_scale

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"a": [100, 2_000, 50_000], "b": [7]}
SCORES = {"loop": [0.0, 0.5, 1.0], "same": [0.4, 0.9, 1.0], "again": [0.5, 0.5, 1.0]}


@pytest.mark.parametrize(
    ("lines", "scale"),
    [(SIZES, log_scale([7, 50_000])), (SCORES, share_scale()), ({"a": [5]}, log_scale([5]))],
    ids=["sizes", "scores", "one point"],
)
def test_lines_stay_inside(lines, scale) -> None:
    drawn = ElementTree.fromstring(line_chart("t", lines, across="x", up="y", scale=scale))
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for line in drawn.iter(f"{SVG}polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height


def test_names_never_overlap() -> None:
    drawn = ElementTree.fromstring(line_chart("t", SCORES, across="x", up="y", scale=share_scale()))
    places = sorted(
        float(text.attrib["y"]) for text in drawn.iter(f"{SVG}text") if text.text in SCORES
    )
    assert len(places) == 3
    assert all(below - above >= 14 for above, below in pairwise(places))


def test_marks_stand_at_their_values() -> None:
    scale = log_scale([3, 400])
    assert scale.marks == (1, 10, 100, 1000)
    assert [round(scale.share(mark), 3) for mark in scale.marks] == [0, 0.333, 0.667, 1]
