"""Scores of commands, tests and linters from how their programs end."""

from pathlib import Path

import pytest
from full_folder import small_disk

from perdure.adapters.verification.verifier import REPORT_CAP, Verifier
from perdure.domain.evaluation.program_checks import TEST_REPORT, Command, Ran
from perdure.domain.evaluation.rubric import Rubric, needs_of
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, overall_score
from perdure.domain.foundation.errors import NotAllowed, StoreAway

COMMAND = {"check": "command", "argv": ["make", "check"]}
TESTS = {"check": "tests", "command": "pytest -q"}
LINT = {"check": "lint", "command": "flake8"}


class Ended:
    """Programs that end as they are told to, with a report where one is given."""

    def __init__(self, ran: Ran | NotAllowed, report: str | None = None) -> None:
        self._ran = ran
        self._report = report
        self.commands: list[Command] = []

    async def run(self, command: Command) -> Ran:
        self.commands.append(command)
        found = Path(command.folder, TEST_REPORT)
        assert not found.exists()
        if self._report is not None:
            found.write_text(self._report, encoding="utf-8")
        if isinstance(self._ran, NotAllowed):
            raise self._ran
        return self._ran

    async def admit(self, program: str) -> None:
        if isinstance(self._ran, NotAllowed):
            raise NotAllowed(f"{program}: {self._ran.message}")


def junit(passed: int = 0, failed: int = 0) -> str:
    return f"""<testsuite>{"<testcase name='a'/>" * passed}{
        "<testcase name='b'><failure message='no'/></testcase>" * failed
    }</testsuite>"""


SKIPPED = "<testsuite><testcase name='a'><skipped/></testcase></testsuite>"


async def score(
    evaluator: object, ran: Ran | NotAllowed, folder: Path, report: str | None = None
) -> DimensionScore:
    rubric = Rubric.model_validate([{"name": "a", "evaluator": evaluator}])
    programs = Ended(ran, report)
    found = await Verifier(programs).verify(rubric, folder=str(folder), output="text")
    assert len(found) == 1
    assert not (folder / TEST_REPORT).is_file()
    return found[0]


@pytest.mark.parametrize("evaluator", [COMMAND, TESTS, LINT], ids=["command", "tests", "lint"])
async def test_a_program_that_fails_on_a_full_disk_is_no_failed_check(
    evaluator: object, tmp_path: Path
) -> None:
    failed = Ran(code=1, err="cc: error: No space left on device")
    with small_disk(tmp_path / "work") as disk:
        disk.fill()
        for ran in (failed, Ran(code=1, err="it broke"), Ran(code=None, timeout_s=3)):
            with pytest.raises(StoreAway, match="No space left on device"):
                await score(evaluator, ran, tmp_path / "work")
        assert (await score(evaluator, Ran(code=0), tmp_path / "work")).score
        disk.make_room()
        assert (await score(evaluator, Ran(code=1, err="it broke"), tmp_path / "work")).score != 1.0
    # Where there is room, what a program says of a disk of its own is its failure.
    assert (await score(evaluator, failed, tmp_path)).score != 1.0


@pytest.mark.parametrize(
    ("evaluator", "ran", "expected", "said"),
    [
        pytest.param(COMMAND, Ran(code=0), 1.0, "", id="command passes"),
        pytest.param(COMMAND, Ran(code=2, err="no"), 0.0, "`make check` ended with exit code 2",
                     id="command fails"),
        pytest.param(COMMAND, Ran(code=-9), 0.0, "signal 9", id="command is killed"),
        pytest.param(COMMAND, Ran(code=None, timeout_s=3), 0.0, "ran 3 s and was stopped",
                     id="command takes too long"),
        pytest.param(COMMAND, NotAllowed("not here."), None, "not here.", id="command may not run"),
        pytest.param(TESTS, Ran(code=0), 1.0, "no report", id="no report, passes"),
        pytest.param(TESTS, Ran(code=3, err="boom"), 0.0, "no report", id="no report, fails"),
        pytest.param(TESTS, Ran(code=1, err="Ran 4 tests in 1s\n\nFAILED (failures=1)\n"), 0.75,
                     "3 of 4 tests pass", id="unittest"),
        pytest.param(TESTS, Ran(code=0, err="Ran 4 tests in 1s\n\nOK (skipped=4)\n"), 0.0,
                     "all tests were skipped", id="unittest skips all"),
        pytest.param(LINT, Ran(code=0), 1.0, "", id="lint is clean"),
        pytest.param(LINT, Ran(code=1, out="a.py:1:1: E1 x\na.py:2:1: W1 y\n"), 0.87,
                     "1 errors, 1 warnings", id="lint finds"),
        pytest.param(LINT, Ran(code=0, out="a.py:1: note: by the way\n"), 1.0, "",
                     id="lint only notes"),
        pytest.param(LINT, Ran(code=2, out="a.py:1: note: by the way\n"), None, "by the way",
                     id="lint breaks with a note"),
        pytest.param(LINT, Ran(code=0, out="12:30:05 starting lint run\n"), 1.0, "",
                     id="lint says when it starts"),
        pytest.param(LINT, Ran(code=2, err="no such option"), None, "no such option",
                     id="lint breaks"),
    ],
)  # fmt: skip
async def test_scores(
    tmp_path: Path, evaluator: object, ran: Ran | NotAllowed, expected: float | None, said: str
) -> None:
    found = await score(evaluator, ran, tmp_path)
    assert found.score == expected
    assert said in found.gap
    blames = {finding.severity for finding in found.findings} & {"important", "blocker"}
    assert bool(blames) == (expected is not None and expected < 1)


@pytest.mark.parametrize(
    ("code", "report", "expected", "counted", "gap"),
    [
        pytest.param(0, junit(12), 1.0, "all 12 tests pass", "", id="pass"),
        pytest.param(0, junit(1), 1.0, "the only test passes", "", id="one"),
        pytest.param(1, junit(3, 1), 0.75, "3 of 4 tests pass", "3 of 4 tests pass", id="fail"),
        pytest.param(5, junit(), 1.0, "", "no tests were found", id="none"),
        pytest.param(0, SKIPPED, 0.0, "", "all tests were skipped", id="skipped"),
        pytest.param(1, junit(3), 0.75, "3 of 4 tests pass", "3 of 4", id="suite fails beside"),
        pytest.param(1, junit(), 0.0, "0 of 1 tests pass", "0 of 1", id="none for an error"),
        pytest.param(2, "<testsuite>", 0.0, "", "no report", id="cut"),
    ],
)
async def test_a_report_of_tests_is_counted(
    tmp_path: Path, code: int, report: str, expected: float, counted: str, gap: str
) -> None:
    (tmp_path / TEST_REPORT).write_text(junit(99))  # that of others, among the files
    found = await score(TESTS, Ran(code=code), tmp_path, report)
    assert (found.score, found.counted) == (expected, counted)
    assert gap in found.gap


async def test_a_report_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.xml"
    outside.write_text(junit(9))
    folder = tmp_path / "work"
    folder.mkdir()

    class Linking(Ended):
        async def run(self, command: Command) -> Ran:
            Path(command.folder, TEST_REPORT).symlink_to(outside)
            return Ran(code=1)

    rubric = Rubric.model_validate([{"name": "a", "evaluator": TESTS}])
    (found,) = await Verifier(Linking(Ran(code=1))).verify(rubric, folder=str(folder), output="")
    assert (found.score, found.counted) == (0.0, "")
    assert outside.exists()


async def test_a_report_with_much_that_tests_wrote_is_counted(tmp_path: Path) -> None:
    wrote = f"<system-out><![CDATA[{'<!DOCTYPE html>' * 500_000}]]></system-out>"
    report = junit(3, 1).replace("<testsuite>", f"<testsuite>{wrote}")
    found = await score(TESTS, Ran(code=1), tmp_path, report)
    assert (found.score, found.counted) == (0.75, "3 of 4 tests pass")


@pytest.mark.parametrize(("code", "expected"), [(0, 1.0), (1, None)])
async def test_a_report_that_is_too_large_is_no_failure(
    tmp_path: Path, code: int, expected: float | None
) -> None:
    class Large(Ended):
        async def run(self, command: Command) -> Ran:
            with Path(command.folder, TEST_REPORT).open("wb") as report:
                report.truncate(REPORT_CAP + 1)
            return Ran(code=code)

    rubric = Rubric.model_validate([{"name": "a", "evaluator": TESTS}])
    (found,) = await Verifier(Large(Ran(code=code))).verify(rubric, folder=str(tmp_path), output="")
    assert found.score == expected
    assert "wrote a report that is too large to read" in found.gap
    assert not (tmp_path / TEST_REPORT).exists()


@pytest.mark.parametrize("check", ["tests", "lint"])
async def test_nothing_to_run_is_a_full_score_with_a_warning(tmp_path: Path, check: str) -> None:
    found = await score({"check": check}, Ran(code=1), tmp_path)
    assert found.score == 1.0
    assert [finding.severity for finding in found.findings] == ["suggestion"]


async def test_what_a_program_is_given(tmp_path: Path) -> None:
    programs = Ended(Ran(code=0))
    rubric = Rubric.model_validate(
        [{"name": "a", "evaluator": {**COMMAND, "timeout_s": 9}}, {"name": "b", "evaluator": LINT}]
    )
    found = await Verifier(programs).verify(rubric, folder=str(tmp_path), output="the text")
    assert overall_score(rubric, Evaluation(dimensions=found)) == 1.0
    first, second = programs.commands
    assert (first.argv, first.folder, first.output, first.timeout_s) == (
        ("make", "check"),
        str(tmp_path),
        "the text",
        9,
    )
    assert second.timeout_s is None


@pytest.mark.parametrize(
    ("evaluator", "file", "told"),
    [
        pytest.param(COMMAND, None, {"a": "make: not here."}, id="named"),
        pytest.param({"check": "tests"}, None, {}, id="no tests to run"),
        pytest.param(
            {"check": "tests"}, "test_it.py", {"a": "pytest: not here."}, id="told by the files"
        ),
        pytest.param(
            {"check": "lint"}, "it.py", {"a": "ruff: not here."}, id="linter told by the files"
        ),
    ],
)
async def test_what_could_not_be_run_is_told_without_running_it(
    tmp_path: Path, evaluator: object, file: str | None, told: dict[str, str]
) -> None:
    if file is not None:
        (tmp_path / file).write_text("def test_it(): pass\n")
    programs = Ended(NotAllowed("not here."))
    rubric = Rubric.model_validate([{"name": "a", "evaluator": evaluator}])
    needed = needs_of(rubric).programs
    assert await Verifier(programs).obstacles(needed, folder=str(tmp_path)) == told
    assert programs.commands == []
    assert await Verifier(Ended(Ran(code=0))).obstacles(needed, folder=str(tmp_path)) == {}
