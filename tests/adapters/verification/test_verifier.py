"""Scores of commands, tests and linters from how their programs end."""

from pathlib import Path

import pytest
from full_folder import small_disk

from perdure.adapters.verification.verifier import Verifier
from perdure.domain.evaluation.program_checks import Command, Ran
from perdure.domain.evaluation.rubric import Rubric, needs_of
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, overall_score
from perdure.domain.foundation.errors import NotAllowed, StoreAway

COMMAND = {"check": "command", "argv": ["make", "check"]}
TESTS = {"check": "tests", "command": "pytest -q"}
LINT = {"check": "lint", "command": "flake8"}


class Ended:
    """Programs that end as they are told to."""

    def __init__(self, ran: Ran | NotAllowed) -> None:
        self._ran = ran
        self.commands: list[Command] = []

    async def run(self, command: Command) -> Ran:
        self.commands.append(command)
        if isinstance(self._ran, NotAllowed):
            raise self._ran
        return self._ran

    async def admit(self, program: str) -> None:
        if isinstance(self._ran, NotAllowed):
            raise NotAllowed(f"{program}: {self._ran.message}")


async def score(evaluator: object, ran: Ran | NotAllowed, folder: Path) -> DimensionScore:
    rubric = Rubric.model_validate([{"name": "a", "evaluator": evaluator}])
    found = await Verifier(Ended(ran)).verify(rubric, folder=str(folder), output="text")
    assert len(found) == 1
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
        assert (
            await score(evaluator, Ran(code=0, out="1 passed in 0.1s"), tmp_path / "work")
        ).score
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
        pytest.param(TESTS, Ran(code=0, out="4 passed in 0.1s\n"), 1.0, "", id="tests pass"),
        pytest.param(TESTS, Ran(code=1, out="1 failed, 3 passed in 0.1s\n"), 0.75,
                     "3 of 4 tests pass", id="tests fail"),
        pytest.param(TESTS, Ran(code=5, out="no tests ran in 0.1s\n"), 1.0,
                     "no tests were found", id="no tests"),
        pytest.param(TESTS, Ran(code=1, out="3 passed in 0.1s\n"), 0.75, "3 of 4 tests pass",
                     id="passing tests in a failing suite"),
        pytest.param(TESTS, Ran(code=2, out="1 error in 0.1s\n"), 0.0, "0 of 1 tests pass",
                     id="tests that cannot be loaded"),
        pytest.param(TESTS, Ran(code=0, out="fine"), 1.0, "no report", id="no report, passes"),
        pytest.param(TESTS, Ran(code=3, err="boom"), 0.0, "no report", id="no report, fails"),
        pytest.param(TESTS, Ran(code=1, out="no tests ran in 0.1s\n"), 0.0, "0 of 1",
                     id="no tests because of an error"),
        pytest.param(LINT, Ran(code=0), 1.0, "", id="lint is clean"),
        pytest.param(LINT, Ran(code=1, out="a.py:1:1: E1 x\na.py:2:1: W1 y\n"), 0.87,
                     "1 errors, 1 warnings", id="lint finds"),
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
    ("out", "counted"),
    [
        ("12 passed in 0.1s", "all 12 tests pass"),
        ("1 passed in 0.1s", "the only test passes"),
        ("1 failed, 3 passed in 0.1s", "3 of 4 tests pass"),
        ("fine", ""),
    ],
)
async def test_what_a_test_program_counts_is_told(tmp_path: Path, out: str, counted: str) -> None:
    found = await score(TESTS, Ran(code=int("failed" in out), out=f"{out}\n"), tmp_path)
    assert found.counted == counted


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
