"""Reports of linters, as JSON and line by line."""

import pytest

from perdure.adapters.verification.reports import Remark, read_lint

RUFF = """[{"cell": null, "code": "F401", "filename": "/perdure/copy/calc.py", "fix": null,
"location": {"column": 8, "row": 1}, "message": "`os` imported but unused", "severity": "error"},
{"cell": null, "code": "invalid-syntax", "filename": "/perdure/copy/b.py", "fix": null,
"location": {"column": 7, "row": 2}, "message": "Expected a parameter", "severity": "error"}]"""
ESLINT = """[{"filePath":"/perdure/copy/t/x.js","messages":[{"ruleId":"no-unused-vars","severity":1,
"message":"'a' is assigned a value but never used.","line":1,"column":5},{"ruleId":"no-undef",
"severity":2,"message":"'b' is not defined.","line":1,"column":9}],"errorCount":1,"warningCount":1},
{"filePath":"/perdure/copy/t/y.js","messages":[],"errorCount":0,"warningCount":0}]"""
FLAKE8 = """./calc.py:1:1: F401 'os' imported but unused
./calc.py:2:1: E302 expected 2 blank lines, found 0
./calc.py:9:1: W391 blank line at end of file
"""
MYPY = """calc.py:3: error: Incompatible return value type  [return-value]
calc.py:3: note: Perhaps you forgot a return statement?
calc.py:4: warning: unused 'type: ignore' comment
Found 1 error in 1 file (checked 1 source file)
"""
GCC = """a.c:3:5: warning: unused variable 'x' [-Wunused-variable]
a.c:1:9: note: expanded from macro 'X'
"""
SHELLCHECK = """a.sh:2:1: warning: x appears unused. [SC2034]
a.sh:3:6: note: Double quote to prevent globbing. [SC2086]
"""
RUFF_FULL = "F401 [*] `os` imported but unused\n --> calc.py:1:8\n\nFound 2 errors.\n"


def remark(level: str, said: str, location: str) -> Remark:
    return Remark("error" if level == "error" else "warning", said, location)


@pytest.mark.parametrize(
    ("text", "remarks"),
    [
        pytest.param(
            RUFF,
            [
                remark("error", "F401 `os` imported but unused", "calc.py:1"),
                remark("error", "invalid-syntax Expected a parameter", "b.py:2"),
            ],
            id="ruff",
        ),
        pytest.param(
            ESLINT,
            [
                remark(
                    "warning", "no-unused-vars 'a' is assigned a value but never used.", "t/x.js:1"
                ),
                remark("error", "no-undef 'b' is not defined.", "t/x.js:1"),
            ],
            id="eslint",
        ),
        pytest.param(
            FLAKE8,
            [
                remark("error", "F401 'os' imported but unused", "calc.py:1"),
                remark("error", "E302 expected 2 blank lines, found 0", "calc.py:2"),
                remark("warning", "W391 blank line at end of file", "calc.py:9"),
            ],
            id="flake8",
        ),
        pytest.param(
            MYPY,
            [
                remark(
                    "error", "error: Incompatible return value type  [return-value]", "calc.py:3"
                ),
                remark("warning", "warning: unused 'type: ignore' comment", "calc.py:4"),
            ],
            id="mypy",
        ),
        pytest.param(
            f"12:30:05 begins\n[12:30:05] reads\n2026-11-29T12:30:05 INFO 12:30:05 ends\n{GCC}",
            [remark("warning", "warning: unused variable 'x' [-Wunused-variable]", "a.c:3")],
            id="between lines of a log",
        ),
        pytest.param(
            GCC,
            [remark("warning", "warning: unused variable 'x' [-Wunused-variable]", "a.c:3")],
            id="gcc",
        ),
        pytest.param(
            SHELLCHECK,
            [
                remark("warning", "warning: x appears unused. [SC2034]", "a.sh:2"),
                remark("warning", "note: Double quote to prevent globbing. [SC2086]", "a.sh:3"),
            ],
            id="shellcheck",
        ),
        pytest.param("a.py:3: note: Revealed type is 'int'\n", [], id="only a note"),
        pytest.param(
            "a.py:3: note: x\nFound 1 error in 1 file\n",
            [remark("error", "an error that is not listed", "")],
            id="a note, a count",
        ),
        pytest.param(
            "a.md:3: Information is missing\n",
            [remark("error", "Information is missing", "a.md:3")],
            id="no note",
        ),
        pytest.param(
            RUFF_FULL, [remark("error", "an error that is not listed", "")] * 2, id="only a count"
        ),
        pytest.param("[]", [], id="clean"),
    ],
)
def test_reports(text: str, remarks: list[Remark]) -> None:
    assert read_lint(text, folders=("/perdure/copy",)) == tuple(remarks)


@pytest.mark.parametrize("text", ["", "All checks passed!", "[1, 2]", "[" * 100_000, "[{]"])
def test_what_is_no_report_is_not_read(text: str) -> None:
    assert read_lint(text) is None
