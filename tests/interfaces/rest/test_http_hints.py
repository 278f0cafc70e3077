"""Over HTTP the next thing to do is a request, or a command that only the operator can give."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.interfaces.rest.error_responses import cure_of, over_http

SOURCES = Path(perdure.__file__).parent
# What errors that reach the REST door are made of.
PARTS = (
    "gateway", "submission", "interfaces/rest", "interfaces/transcripts.py",
    "adapters/definitions", "adapters/stores", "resolve_spec.py",
)  # fmt: skip
# Only who has a shell on the operator's machine can do these.
OPERATORS = frozenset(
    {"worker", "up", "down", "logs", "doctor", "setup", "api", "gc", "replay", "memory", "skills",
     "tools", "apply", "stores", "repair", "move", "deploy", "keys", "codec"}
)  # fmt: skip
COMMAND = re.compile(r"perdure ([a-z]+)\b")


def texts() -> Iterator[str]:
    """Every text of these parts, values in it as `x`; no docstrings."""
    for part in PARTS:
        place = SOURCES / part
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
            skipped |= {id(piece) for node in whole for piece in node.values}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    yield "".join(_piece(piece) for piece in node.values)
                elif isinstance(node, ast.Constant) and id(node) not in skipped:
                    yield node.value if isinstance(node.value, str) else ""


def _piece(piece: ast.expr) -> str:
    return str(piece.value) if isinstance(piece, ast.Constant) else "x"


def test_no_error_sends_a_caller_over_http_to_a_shell_for_what_a_request_does() -> None:
    cures = [text for text in texts() if COMMAND.search(text) and not text.startswith("perdure ")]
    assert len(cures) > 20
    left = {text: COMMAND.findall(over_http(text)) for text in cures}
    assert {text: found for text, found in left.items() if set(found) - OPERATORS} == {}


@pytest.mark.parametrize(
    ("cure", "told"),
    [
        ("`perdure list` lists all runs.", "`GET /api/v1/loops` lists all runs."),
        ("Follow it: perdure watch a-1.b", "Follow it: GET /api/v1/loops/a-1.b/events"),
        ("Look again, or `perdure watch a-1`.", "Look again, or `GET /api/v1/loops/a-1/events`."),
        ("`perdure result a` shows it.", "`GET /api/v1/loops/a/result` shows it."),
        ("Stop it first: perdure stop r-1", "Stop it first: POST /api/v1/loops/r-1/stop"),
        ('Start one: perdure run "a goal".', "Start one: POST /api/v1/loops."),
        ("Start one with `perdure worker`.", "Start one with `perdure worker`."),
        ("perdure runner", "perdure runner"),
    ],
)  # fmt: skip
def test_a_command_becomes_the_request(cure: str, told: str) -> None:
    assert over_http(cure) == told


def test_words_far_behind_a_command_do_not_belong_to_it() -> None:
    # Looking for them to the end of the text takes a minute for a megabyte of beginnings.
    near, far = (f"perdure schedule create {'x' * n} --replace" for n in (300, 500))
    assert over_http(near) == "POST /api/v1/schedules with replace true"
    assert over_http(far) == "POST /api/v1/schedules"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 503])
def test_no_answer_is_without_a_cure(status: int) -> None:
    assert cure_of(status, "")
    assert cure_of(status, "Do this.") == "Do this."
