"""Scores the dimensions of a rubric that programs evaluate, on the files of one iteration."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import assert_never

from perdure.adapters.files.disk import need_room
from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.adapters.sandbox.bubblewrap import WORK
from perdure.adapters.verification.project_detection import Program, find_linter, find_tests
from perdure.adapters.verification.reports import (
    TAG_CAP,
    Failed,
    Remark,
    Suite,
    TooLarge,
    read_junit,
    read_lint,
    read_unittest,
)
from perdure.domain.evaluation.program_checks import (
    OUTPUT_CAP,
    TEST_REPORT,
    Command,
    CommandCheck,
    LintCheck,
    Ran,
    TestsCheck,
    VerifiedCheck,
    score_of_lint,
    score_of_tests,
)
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Finding, Severity
from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.evaluation.verifier_ports import CommandRunner
from perdure.domain.foundation.errors import NotAllowed, ToolFailure

LINT_CAP = 4_000_000
REPORT_MB = 64  # read piece by piece, unlike what a linter writes
REPORT_CAP = REPORT_MB * 1_000_000
SHOWN_REMARKS = 10
LAST_CHARACTERS = 400
NO_TESTS = 5  # pytest's exit code
# By this variable pytest writes a report however it is called: by name, by python or by make. Only
# the older version of the format names the files.
REPORTING = (("PYTEST_ADDOPTS", f'--junitxml="{{folder}}/{TEST_REPORT}" -o junit_family=xunit1'),)
_NOTHING = {"tests": "no tests were found", "lint": "no linter fits the files"}


class Verifier:
    """The port `Verifier`: commands, tests and linters.

    They run one after the other, because they share the folder and most hosts have few processors.
    """

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands

    async def verify(
        self, rubric: Rubric, *, folder: str, output: str
    ) -> tuple[DimensionScore, ...]:
        """Score every dimension that a program evaluates; one that cannot run gives no score.

        Raises:
            StoreAway: a program failed because the disk is full, which is no fault of the files.
        """
        return tuple([await self._score(item, folder, output) for item in rubric.verified])

    async def obstacles(
        self, checks: Mapping[str, VerifiedCheck], *, folder: str
    ) -> dict[str, str]:
        """Why checks cannot run on a folder now, by name of their dimension."""
        found: dict[str, str] = {}
        for name, check in checks.items():
            program = await asyncio.to_thread(_program, check, folder)
            try:
                if program is not None:
                    await self._commands.admit(program.argv[0])
            except NotAllowed as error:
                found[name] = str(error)
        return found

    async def _score(self, dimension: Dimension, folder: str, output: str) -> DimensionScore:
        check = dimension.verified_check
        if check is None:
            raise ValueError(f"{dimension.name} is evaluated by no program")
        program = await asyncio.to_thread(_program, check, folder)
        if program is None:
            return _scored(dimension, 1.0, [_remark(dimension, 1, _NOTHING[check.check])])
        # A linter's report could not be read if its middle were cut out.
        cap = LINT_CAP if isinstance(check, LintCheck) else OUTPUT_CAP
        tested = isinstance(check, TestsCheck)
        if tested:  # removes a report among the files, which is not of this run
            await asyncio.to_thread(_cleared, folder)
        command = Command(
            argv=program.argv,
            folder=folder,
            output=output,
            timeout_s=check.timeout_s,
            cap=cap,
            environment=program.environment + (REPORTING if tested else ()),
        )
        try:
            ran = await self._commands.run(command)
        except NotAllowed as error:
            return _unchecked(dimension, str(error))
        if ran.code != 0:
            await asyncio.to_thread(need_room, folder, said=f"{ran.out}\n{ran.err}")
        if ran.code is None:
            why = f"used {ran.overran}" if ran.overran else f"ran {ran.timeout_s:g} s"
            said = f"`{command.line}` did not end: it {why} and was stopped"
            return _scored(dimension, 0.0, [_defect(dimension, 1, said, detail=_last(ran))])
        match check:
            case CommandCheck():
                return _of_command(dimension, command, ran)
            case TestsCheck():
                return await asyncio.to_thread(_of_tests, dimension, command, ran)
            case LintCheck():
                return _of_lint(dimension, command, ran)
            case _:
                assert_never(check)


def _program(check: CommandCheck | TestsCheck | LintCheck, folder: str) -> Program | None:
    match check:
        case CommandCheck(argv=argv):
            return Program(argv)
        case TestsCheck(command=None):
            return find_tests(folder)
        case LintCheck(command=None):
            return find_linter(folder)
        case _:
            return Program(check.command or ())


def _of_command(dimension: Dimension, command: Command, ran: Ran) -> DimensionScore:
    if ran.code == 0:
        return _scored(dimension, 1.0, [])
    said = f"`{command.line}` ended with {_code(ran)}"
    return _scored(dimension, 0.0, [_defect(dimension, 1, said, detail=_last(ran))])


def _take_report(folder: str) -> Suite | None:
    """Read and remove the report of the tests; None if there is none.

    Raises:
        TooLarge: it is larger than `REPORT_CAP`, or one of its tags is too long.
    """
    # Not by its path alone, since a program may have left a link there.
    with RootedDirectory(folder) as files:
        try:
            # A duplicate, because both blocks close their descriptor.
            with files.file((TEST_REPORT,)) as report, os.fdopen(os.dup(report), "rb") as stream:
                if os.fstat(report).st_size > REPORT_CAP:
                    raise TooLarge
                return read_junit(stream)
        except (OSError, ToolFailure):
            return None
        finally:
            _cleared(folder)


def _cleared(folder: str) -> None:
    with RootedDirectory(folder) as files, files.folder(()) as root, suppress(OSError):
        os.unlink(TEST_REPORT, dir_fd=root)


def _of_tests(dimension: Dimension, command: Command, ran: Ran) -> DimensionScore:
    try:
        suite = _take_report(command.folder) or read_unittest(f"{ran.out}\n{ran.err}")
    except TooLarge:
        ended = f"`{command.line}` ended with {_code(ran)}"
        most = f"{REPORT_MB} MB, {TAG_CAP // 1_000_000} MB of them in one tag"
        said = f"{ended} and wrote a report that is too large to read (at most {most})"
        if ran.code == 0:
            return _scored(dimension, 1.0, [_remark(dimension, 1, said)])
        return _unchecked(dimension, said)
    return _of_suite(dimension, command, ran, suite)


def _unchecked(dimension: Dimension, why: str) -> DimensionScore:
    gap = f"could not be checked: {why}"
    return DimensionScore(name=dimension.name, score=None, source="check", gap=gap[:600])


def _of_suite(
    dimension: Dimension, command: Command, ran: Ran, suite: Suite | None
) -> DimensionScore:
    if suite is None:
        ended = f"`{command.line}` ended with {_code(ran)} and wrote no report of its tests"
        if ran.code == 0:
            return _scored(dimension, 1.0, [_remark(dimension, 1, ended)])
        return _scored(dimension, 0.0, [_defect(dimension, 1, ended, detail=_last(ran))])
    if suite.total == 0 and suite.skipped and ran.code == 0:
        return _scored(dimension, 0.0, [_defect(dimension, 1, "all tests were skipped")])
    if suite.total == 0 and ran.code in {0, NO_TESTS}:
        return _scored(dimension, 1.0, [_remark(dimension, 1, _NOTHING["tests"])])
    failures = list(suite.failures)
    if ran.code != 0 and suite.passed == suite.total:
        # All tests passed by the report, and yet the program failed: something else failed, or the
        # report is forged.
        suite = Suite(suite.passed, suite.total + 1)
        failures = [Failed(f"{command.line} ended with {_code(ran)}", detail=_last(ran))]
    score = score_of_tests(passed=suite.passed, total=suite.total)
    unnamed = suite.passed < suite.total and not failures
    if unnamed:
        failures = [Failed(f"{suite.total - suite.passed} tests fail", detail=_last(ran))]
    found = [
        _defect(
            dimension,
            number,
            f"{failed.name}: {failed.detail}" if failed.detail else f"{failed.name} fails",
            detail=failed.detail or _last(ran),
            location=failed.location,
        )
        for number, failed in enumerate(failures, start=1)
    ]
    scored = _scored(dimension, score, found, gap=f"{suite.passed} of {suite.total} tests pass")
    return scored.model_copy(update={"counted": _counted(suite)})


def _counted(suite: Suite) -> str:
    if suite.passed < suite.total:
        return f"{suite.passed} of {suite.total} tests pass"
    return "the only test passes" if suite.total == 1 else f"all {suite.total} tests pass"


def _of_lint(dimension: Dimension, command: Command, ran: Ran) -> DimensionScore:
    remarks = read_lint(ran.out, folders=(WORK, command.folder))
    if remarks is None and ran.code == 0:
        return _scored(dimension, 1.0, [])
    # Notes alone explain no failure: what failed stands nowhere in the report.
    if remarks is None or (not remarks and ran.code != 0):
        said = f"`{command.line}` ended with {_code(ran)} and no report that can be read"
        return _unchecked(dimension, f"{said}: {_last(ran)}")
    errors = sum(1 for one in remarks if one.level == "error")
    warnings = len(remarks) - errors
    worst = sorted(remarks, key=lambda one: one.level != "error")[:SHOWN_REMARKS]
    found = [_objection(dimension, number, one) for number, one in enumerate(worst, start=1)]
    score = rounded(score_of_lint(errors=errors, warnings=warnings))
    return _scored(dimension, score, found, gap=f"{errors} errors, {warnings} warnings")


def _objection(dimension: Dimension, number: int, remark: Remark) -> Finding:
    if remark.level == "error":
        return _defect(dimension, number, remark.said, location=remark.location)
    return _remark(dimension, number, remark.said, location=remark.location)


def _scored(
    dimension: Dimension, score: float, findings: list[Finding], *, gap: str = ""
) -> DimensionScore:
    missing = gap or (findings[0].title if findings else "")
    return DimensionScore(
        name=dimension.name,
        score=score,
        source="check",
        gap=missing if score < 1 or not gap else "",
        findings=tuple(findings),
    )


def _defect(
    dimension: Dimension, number: int, title: str, *, detail: str = "", location: str = ""
) -> Finding:
    matters = dimension.decides or dimension.effective_weight > 0
    severity: Severity = "important" if matters else "suggestion"
    return _finding(dimension, number, severity, title, detail=detail, location=location)


def _remark(dimension: Dimension, number: int, title: str, *, location: str = "") -> Finding:
    return _finding(dimension, number, "suggestion", title, location=location)


def _finding(
    dimension: Dimension,
    number: int,
    severity: Severity,
    title: str,
    *,
    detail: str = "",
    location: str = "",
) -> Finding:
    return Finding(
        id=f"check:{dimension.name}:{number}",
        severity=severity,
        dimension=dimension.name,
        title=title[:300],
        detail=detail,
        location=location,
        fix=dimension.hint,
    )


def _code(ran: Ran) -> str:
    if ran.code is not None and ran.code < 0:
        return f"signal {-ran.code}"
    return f"exit code {ran.code}"


def _last(ran: Ran) -> str:
    text = (ran.err.strip() or ran.out.strip())[-LAST_CHARACTERS:]
    return text if text else "it wrote nothing"
