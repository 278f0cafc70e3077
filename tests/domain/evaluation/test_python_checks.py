"""What counts as Python that judges an output."""

import pytest

from perdure.domain.evaluation.checks import Snippet, read_snippet


def test_an_expression_stands_alone() -> None:
    assert read_snippet(" len(output) > 3  # long\n") == Snippet("", "(len(output) > 3  # long\n)")


def test_of_several_functions_the_last_is_asked() -> None:
    code = "import re\ndef words(text): return text.split()\ndef check(output, most=3):\n  return 1"
    assert read_snippet(code) == Snippet(setup=code, verdict="check(output)")


def test_an_adaptation_with_a_default_is_given_while_one_is_in_force() -> None:
    code = "def check(output, adaptation=None): return adaptation is None"
    verdict = "check(output, adaptation) if adaptation else check(output)"
    assert read_snippet(code) == Snippet(setup=code, verdict=verdict)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param("x = 1", "an expression over `output`", id="a statement"),
        pytest.param("def check(): return 1", "a function of the output", id="no argument"),
        pytest.param("def check(a, b): return 1", "takes others", id="two arguments"),
        pytest.param("def check(output:\n  return", "line 1", id="broken"),
        pytest.param("(" * 5_000, "Python that can be read", id="too deep"),
        pytest.param("a\0b", "Python that can be read", id="a NUL"),
    ],
)
def test_what_cannot_judge_is_refused(code: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_snippet(code)
