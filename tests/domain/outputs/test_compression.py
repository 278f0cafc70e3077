"""Compression: nothing is lost, nothing gets longer, what matters is seen."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.domain.outputs.compression import UNCOMPRESSED_CHARACTERS, compress, expand

PARAGRAPH = "Every pump is looked at twice a year, and each finding goes into the book. " * 4
SECTIONS = ("Intake", "Pumps", "Filters", "Outlet")
CLOSING = "Closing words about the river. " * 20
REPORT = "\n\n".join(
    [
        "# Report",
        PARAGRAPH.strip(),
        *(f"## {name}\n\nThe {name}: {PARAGRAPH}" for name in SECTIONS),
        CLOSING,
    ]
)
BODY = "".join(f"    value_{n} = measure(sample, {n}) + offset\n" for n in range(20))
PYTHON = (
    "import os\nfrom sys import path\n\nLIMIT = 3\n\n\n"
    + "".join(f"def step_{name}(sample, offset):\n{BODY}    return sample\n\n\n" for name in "abc")
    + f"class Plant:\n    depth = 2\n\n    def run(self):\n{BODY.replace('    ', '        ')}"
)
GO = 'package main\n\nimport "fmt"\n\n' + "".join(
    f"func Step{name}(n int) int {{\n"
    + "".join(f"\tfmt.Println(n + {k})\n" for k in range(40))
    + "\treturn n\n}\n\n"
    for name in "ABC"
)
DATA = json.dumps(
    {"title": "Plant", "notes": PARAGRAPH * 4, "rows": [{"id": 1, "text": PARAGRAPH * 4}]}, indent=1
)
CONTENTS = [REPORT, PYTHON, GO, DATA]
IDS = ["text", "python", "go", "json"]
LINES = st.sampled_from(
    [
        *("def f(a):", "    return a", "# Head", "", "word " * 30, "}", "if x {"),
        *('"k": "' + "v" * 200, "😀" * 40, "éa\u0301 " * 30),
        "[... lines 1-2 unchanged #abcdef ...]",
    ]
)


@given(st.lists(LINES, max_size=60).map("\n".join), st.sets(st.integers(1, 60)))
@settings(deadline=None)
@example("\n".join(["x", "y " * 1_500]), set())
def test_nothing_is_lost_and_nothing_gets_longer(text: str, keep: set[int]) -> None:
    made = compress(text, keep=keep)
    assert expand(made.text, text) == text
    assert len(made.text) <= len(text)
    assert (made.folds == 0) == (made.text == text)
    assert len(compress(made.text, keep=keep).text) <= len(made.text)
    lines = text.split("\n")
    assert all(lines[n - 1] in made.text for n in keep if n <= len(lines))


@pytest.mark.parametrize("text", CONTENTS, ids=IDS)
def test_a_long_output_is_less_than_half_as_long_and_says_what_is_missing(text: str) -> None:
    made = compress(text)
    assert len(made.text) < 0.5 * len(text)
    assert made.text.count(" unchanged #") == made.folds > 0
    assert expand(made.text, text) == text


@pytest.mark.parametrize("text", CONTENTS, ids=IDS)
def test_short_outputs_stay_whole(text: str) -> None:
    short = text[:UNCOMPRESSED_CHARACTERS]
    assert compress(short).text == short


def test_text_keeps_first_paragraph_headings_and_what_is_pointed_at() -> None:
    place = REPORT.split("\n").index(f"The Pumps: {PARAGRAPH}") + 1
    made = compress(REPORT, pointed=[place]).text
    assert PARAGRAPH.strip() in made.split("\n")
    assert all(f"## {name}" in made.split("\n") for name in SECTIONS)
    assert f"The Pumps: {PARAGRAPH}" in made
    assert f"The Intake: {PARAGRAPH}" not in made
    assert "The Filters: Every pump" in made, "a mark begins with the words it stands for"


def test_a_heading_that_is_pointed_at_brings_its_section() -> None:
    place = REPORT.split("\n").index("## Filters") + 1
    made = compress(REPORT, pointed=[place]).text
    assert f"The Filters: {PARAGRAPH}" in made
    assert f"The Pumps: {PARAGRAPH}" not in made


def test_python_keeps_imports_signatures_and_names_what_it_folds() -> None:
    made = compress(PYTHON).text
    for shown in ("import os", "from sys import path", "LIMIT = 3", "class Plant:", "depth = 2"):
        assert shown in made
    for name in "abc":
        assert f"def step_{name}(sample, offset):" in made
        assert f"body of step_{name} ...]" in made
    assert "body of Plant.run ...]" in made
    assert "value_7" not in made


def test_changed_lines_are_shown_and_their_neighbours_not_folded() -> None:
    lines = PYTHON.split("\n")
    changed = lines.index("    value_9 = measure(sample, 9) + offset") + 1
    made = compress(PYTHON, keep=range(changed - 3, changed + 4)).text
    for number in range(6, 13):
        assert f"value_{number} =" in made
    assert "value_5 =" not in made
    assert made.count("body of step_a ...]") == 2


def test_a_signature_that_is_pointed_at_brings_its_body() -> None:
    place = PYTHON.split("\n").index("def step_b(sample, offset):") + 1
    made = compress(PYTHON, pointed=[place]).text
    assert "body of step_a" in made
    assert "body of step_b" not in made


def test_other_languages_fold_what_is_indented() -> None:
    made = compress(GO).text
    assert 'import "fmt"' in made
    assert "func StepB(n int) int {" in made
    assert "body of func StepB(n int) int ...]" in made


def test_json_keeps_its_structure() -> None:
    made = compress(DATA)
    value = json.loads(made.text)
    assert value["title"] == "Plant"
    assert value["rows"][0]["id"] == 1
    assert "characters unchanged #" in value["notes"]
    assert made.folds == 2


def test_a_reply_may_repeat_marks_and_rewrite_the_rest() -> None:
    made = compress(PYTHON).text
    reply = made.replace("LIMIT = 3", "LIMIT = 4")
    assert expand(reply, PYTHON) == PYTHON.replace("LIMIT = 3", "LIMIT = 4")


@pytest.mark.parametrize(
    "mark",
    [
        "[... lines 1-3 unchanged #000000: body ...]",
        "[... lines 9-2 unchanged #000000 ...]",
        "[... lines 0-9999999 unchanged #000000 ...]",
        "[... 900 characters unchanged #000000: words ...]",
    ],
)
def test_a_mark_of_another_output_stays_as_it_is(mark: str) -> None:
    assert expand(f"a\n{mark}\nb", REPORT) == f"a\n{mark}\nb"


def test_only_lines_that_were_folded_together_come_back() -> None:
    made = compress(REPORT).text
    mark = next(line for line in made.split("\n") if "unchanged #" in line)
    assert expand(mark, REPORT.replace("Every", "Each")) == mark
