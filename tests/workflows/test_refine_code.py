"""Code tasks: programs judge each iteration's snapshot, and the best one's files come back."""

import hashlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from enclosure import needs_bubblewrap
from installation import Installation
from refining import spec

TEST = """import calc


def test_adds():
    assert calc.add(1, 2) == 3


def test_adds_nothing():
    assert calc.add(2, 0) == 2


def test_adds_negatives():
    assert calc.add(-1, -1) == -2
"""
GOOD = "def add(a, b):\n    return a + b\n"
HALF = "def add(a, b):\n    return 2\n"
BROKEN = "def add(a, b:\n"
SUITE = {"name": "suite", "evaluator": {"check": "tests", "command": "python3 -m pytest -q"}}
OPEN = {"improvement_threshold": None, "abort_on_regression": False, "quality_threshold": None}

pytestmark = needs_bubblewrap


@pytest.fixture
async def coding(
    bare: Installation, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    """An installation whose worker runs Python, pytest and a shell in the sandbox."""
    beside = str(Path(sys.executable).parent)  # where pytest is, activated or not
    monkeypatch.setenv("PATH", os.pathsep.join([beside, os.environ["PATH"]]))
    async with bare.worker(allow_commands=("python3", "pytest", "sh"), command_timeout_s=60):
        yield bare


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a suite of three tests and a module that lacks its function."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "test_calc.py").write_text(TEST)
    (made / "calc.py").write_text("")
    (made / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -p no:randomly\n")
    return made


def writes(content: str, *, over: str = "") -> list[dict[str, object]]:
    """Script entries of an iteration that writes the module over what is there."""
    expected = hashlib.sha256(over.encode()).hexdigest()
    arguments = {"path": "calc.py", "content": content, "expected_hash": expected}
    return [{"tool_calls": [{"name": "fs.write", "arguments": arguments}]}, {"text": "Done."}]


def task(folder: Path, *rubric: object, **refine: object) -> dict[str, object]:
    tools = {"access": "full", "allow": ["fs.read", "fs.write"]}
    return {
        **spec(rubric or (SUITE,), **OPEN | refine),
        "goal": "Write add.",
        "workspace": str(folder),
        "tools": tools,
    }


@pytest.mark.long
async def test_the_best_snapshot_is_returned_and_applied(
    coding: Installation, folder: Path
) -> None:
    replies = [*writes(HALF), *writes(GOOD, over=HALF), *writes(BROKEN, over=GOOD)]
    result = await coding.run(
        task(folder, max_iterations=3, min_iterations=3), {"replies": replies}
    )
    scores = [record.score for record in result.iterations]
    assert scores == [pytest.approx(1 / 3), 1.0, 0.0]
    first, second, third = result.iterations
    assert len({record.tree_ref for record in (first, second, third)}) == 3
    assert first.findings[0]["dimension"] == "suite"
    assert "test_calc.py" in str(first.findings[0]["location"])
    assert (result.outcome, result.best and result.best.iteration) == ("best_effort", 2)

    found = {artifact.kind: artifact.ref for artifact in result.artifacts}
    assert found["tree"] == second.tree_ref
    assert (folder / "calc.py").read_text() == ""
    base = await coding.parts.workspaces.base(run=result.id)
    changed = await coding.parts.workspaces.apply(
        base=base.hash, tree=found["tree"], target=str(folder)
    )
    assert changed == ("calc.py",)
    assert (folder / "calc.py").read_text() == GOOD


@pytest.mark.long
async def test_passing_tests_that_decide_end_the_run(coding: Installation, folder: Path) -> None:
    rubric = {**SUITE, "decides": True}
    result = await coding.run(
        task(folder, rubric, max_iterations=3, min_iterations=3), {"replies": writes(GOOD)}
    )
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert len(result.iterations) == 1


@pytest.mark.long
async def test_a_program_gets_the_text_and_works_on_a_copy(
    coding: Installation, folder: Path
) -> None:
    script = 'grep -q Done "$0" && grep -q Done && cmp -s calc.py want.py && rm -r * && touch bad'
    argv = ["sh", "-c", script, "{output}"]
    (folder / "want.py").write_text(GOOD)
    rubric = {"name": "same", "evaluator": {"check": "command", "argv": argv}}
    result = await coding.run(task(folder, rubric, max_iterations=1), {"replies": writes(GOOD)})
    assert result.iterations[0].score == 1.0, result.open_findings
    tree = {artifact.kind: artifact.ref for artifact in result.artifacts}["tree"]
    async with coding.parts.workspaces.checkout(tree=tree) as copy:
        assert sorted(path.name for path in Path(copy).iterdir()) == [
            "calc.py",
            "pytest.ini",
            "test_calc.py",
            "want.py",
        ]
    assert not Path(copy).exists()


@pytest.mark.long
async def test_a_run_that_only_reads_is_verified_on_the_folder_as_it_is(
    coding: Installation, folder: Path
) -> None:
    (folder / "answer.txt").write_text("42\n")
    argv = ["sh", "-c", 'test "$(cat answer.txt)" = "$(cat)"']
    rubric = {"name": "right", "evaluator": {"check": "command", "argv": argv}}
    wanted = {**spec([rubric], max_iterations=1), "workspace": str(folder)}
    result = await coding.run(wanted, {"replies": [{"text": "42"}]})
    assert result.iterations[0].score == 1.0
    result = await coding.run(wanted, {"replies": [{"text": "41"}]})
    assert result.iterations[0].score == 0.0
    assert "exit code 1" in str(result.open_findings[0]["title"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        pytest.param({"check": "command", "argv": ["make"]},
                     ["make may not run on this worker", "PERDURE_ALLOW_COMMANDS"], id="named"),
        pytest.param({"check": "lint"}, ["ruff may not run on this worker"], id="told by files"),
        pytest.param({"check": "acme.tone"}, ["no check is named acme.tone", "`perdure down`"],
                     id="plugin"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("access", ["full", "readonly"])
async def test_what_the_worker_does_not_have_is_refused_before_a_model_is_asked(
    coding: Installation, folder: Path, evaluator: object, said: list[str], access: str
) -> None:
    wanted = task(folder, {"name": "odd", "evaluator": evaluator})
    wanted["tools"] = {"access": access}
    result = await coding.run(wanted, {"replies": writes(GOOD)})
    assert (result.outcome, result.reason) == ("failed", "invalid_input")
    assert result.iterations == ()
    assert all(text in result.explanation for text in ["odd: ", *said])
    assert result.spend.model_calls == 0
