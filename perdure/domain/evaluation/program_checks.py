"""The parameters of checks that run programs on the files of an iteration.

Which programs may run is the worker's to say; a specification only names one of them.
"""

import shlex
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from perdure.domain.foundation.base import FrozenModel

MAX_SECONDS = 3_600.0


def _words(value: object) -> object:
    """A command in one line is taken apart as a shell would, without its other powers."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ValueError(f"a list of words, or one line with closed quotes ({error})") from None


def _program_first(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv or not argv[0]:
        raise ValueError("a program and its arguments")
    # Programs are allowed by their name: a path could name another one that is called the same.
    if "/" in argv[0]:
        raise ValueError(f"a program by its name, without folders ({argv[0]} has some)")
    if any("\0" in word for word in argv):
        raise ValueError("words without NUL characters")
    return argv


Argv = Annotated[
    tuple[str, ...], BeforeValidator(_words), Field(max_length=200), AfterValidator(_program_first)
]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]


class CommandCheck(FrozenModel):
    """A program that ends with exit code 0 when the output is right.

    It gets the output on standard input; `{output}` among its arguments becomes the path of a file
    that holds it. `timeout_s` can only shorten the worker's own limit.
    """

    check: Literal["command"]
    argv: Argv
    timeout_s: Seconds | None = None


class TestsCheck(FrozenModel):
    """A test suite; scores the share of tests that pass. Without `command` the files say which.

    `{report}` among the words of `command` becomes the path where it writes JUnit's XML.
    """

    # Pytest would collect the class for its name.
    __test__ = False

    check: Literal["tests"]
    command: Argv | None = None
    timeout_s: Seconds | None = None


class LintCheck(FrozenModel):
    """A linter; each error costs 0.1 and each warning 0.03, down to 0.2."""

    check: Literal["lint"]
    command: Argv | None = None
    timeout_s: Seconds | None = None


VerifiedCheck = CommandCheck | TestsCheck | LintCheck


def named_program(check: VerifiedCheck) -> str | None:
    """The program that a check names; None: the files tell."""
    argv = check.argv if isinstance(check, CommandCheck) else check.command
    return argv[0] if argv else None


VERIFIED_KINDS = ("command", "tests", "lint")
LOWEST_LINT_SCORE = 0.2
ERROR_COST = 0.1
WARNING_COST = 0.03


def score_of_tests(*, passed: int, total: int) -> float:
    """The share of tests that pass; 1 if there are none."""
    return 1.0 if total == 0 else passed / total


def score_of_lint(*, errors: int, warnings: int) -> float:
    """1.0 when clean, never below 0.2."""
    return 1.0 - min(1.0 - LOWEST_LINT_SCORE, ERROR_COST * errors + WARNING_COST * warnings)


OUTPUT_CAP = 50_000
TEST_REPORT = ".perdure-tests.xml"
"""Where test programs write their report, in the folder that they work on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run on a folder of its own.

    `{output}` among the words of `argv` stands for the path of a file that holds `output`, which is
    on standard input too, `{report}` for where `TEST_REPORT` belongs; `{folder}` among the values
    of `environment` for the folder as the program sees it. `cap` is what is kept of each stream, in
    bytes.
    """

    argv: tuple[str, ...]
    folder: str
    output: str = ""
    timeout_s: float | None = None
    cap: int = OUTPUT_CAP
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def line(self) -> str:
        """The command as a person would type it."""
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended; `code` is None when it was ended, negative after a signal.

    It is ended when its time is over, or when it used too much, which `overran` then names.
    The middle of a stream above the cap is left out, which its text says.
    """

    code: int | None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    timeout_s: float = 0.0
    overran: str = ""
