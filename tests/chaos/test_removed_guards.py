"""The suite itself: without one of its guards the product fails a failure test.

Each guard is removed in a copy of the code, and the test that must notice is run there. A test
that passes without what it is there for proves nothing.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("perdure", "workflows", "activities", "tests")
FAILED = 1  # pytest's exit code for tests that ran and failed; others are broken runs
PASSED = 0


@dataclass(frozen=True, slots=True)
class Change:
    """One place of the code, as it is and as it becomes."""

    file: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Removed:
    """What is taken away, and the test that must fail without it."""

    changes: tuple[Change, ...]
    caught_by: str


# Our handlers are synchronous, so nothing is under way when a run rolls. The wait at the roll is
# for the first handler that is not: this one takes its time before it has its effect.
SLOW_HANDLER = (
    Change(
        "workflows/engine/handlers.py",
        '''    def on_add_input(self, *given: object) -> None:
        """Handle the signal: pass an input to the next prompt."""
''',
        '''    async def on_add_input(self, *given: object) -> None:
        """Handle the signal: pass an input to the next prompt."""
        await workflow.sleep(0.3)
''',
    ),
)
WAIT = "        await workflow.wait_condition(workflow.all_handlers_finished)\n"
SIGNALS_OVER_ROLLS = (
    "tests/chaos/test_rolls.py::test_r19_every_signal_of_a_rolling_run_is_applied_once"
)
GUARDS = {
    "a reply that was paid for is used again": Removed(
        (
            Change(
                "activities/support/journaled_model.py",
                "        if (known := await self._known(step, request)) is not None:\n"
                "            return known\n",
                "",
            ),
            Change(
                "perdure/adapters/stores/journal.py",
                "        if reply is not None:\n            return Replayed(",
                "        if False:\n            return Replayed(",
            ),
        ),
        "tests/chaos/test_worker_killed.py::test_r01_a_kill_at_any_point_is_recovered[after_commit]",
    ),
    "no attempt beyond the reservation of its call": Removed(
        (
            Change(
                "perdure/adapters/stores/journal.py",
                "if not is_within_reservation(attempt, account) or _tried_enough(attempt, rows):",
                "if False:",
            ),
            Change(
                "activities/support/journaled_model.py",
                "fits=is_within_reservation(attempt, account)\n"
                "            and (allowance.attempts is None or account.attempts"
                " < allowance.attempts),",
                "fits=True,",
            ),
        ),
        "tests/workflows/test_agent_budget.py::test_attempts_that_fail_count_as_calls",
    ),
    "no request that does not fit its reservation": Removed(
        (
            Change(
                "activities/support/journaled_model.py",
                "fitting = affordable(step, prompt=prompt, "
                "max_tokens=request.max_tokens, price=price)",
                "fitting = True",
            ),
            Change(
                "perdure/adapters/stores/journal.py",
                "if not is_within_reservation(attempt, account) or ",
                "if ",
            ),
        ),
        "tests/workflows/test_agent_budget.py::test_a_call_that_never_fits_sends_nothing",
    ),
    "a call in flight is reserved in the envelope": Removed(
        (
            Change(
                "workflows/engine/model_caller.py",
                "        state.budget = budgets.reserve(state.budget, activity_id, fit.amounts)\n",
                "",
            ),
        ),
        "tests/workflows/test_agent_budget.py::test_a_call_in_flight_holds_its_reservation",
    ),
    "an approval names what it approves": Removed(
        (
            Change(
                "perdure/domain/run/gates.py",
                "if gate.args_hash is not None and not _means(gate.args_hash, begins, args_hash):",
                "if False:",
            ),
        ),
        "tests/chaos/test_rolls.py::test_r48_an_approval_over_a_roll_and_answered_twice",
    ),
    "only what was approved runs": Removed(
        (
            Change(
                "activities/tool_calls.py",
                "if arguments_hash(use.name, use.arguments) != step.args_hash:",
                "if False:",
            ),
        ),
        "tests/activities/test_call_tool.py"
        "::test_a_call_that_is_not_the_one_decided_on_does_not_run",
    ),
    "the best iteration is kept": Removed(
        (
            Change(
                "perdure/domain/refine/iteration_rules.py",
                "if best is not None and best.iteration == state.iteration:",
                "if best is not None:",
            ),
        ),
        "tests/chaos/test_worker_killed.py::test_r47_the_best_survives_a_regression_and_a_kill",
    ),
    "large payloads go to the store": Removed(
        (
            Change(
                "perdure/adapters/temporal/data_converter.py",
                "    if blobs is None:\n        return made\n",
                "    return made\n",
            ),
        ),
        "tests/drills/test_lost_values.py"
        "::test_a_lost_value_is_told_and_the_run_goes_on_from_before_it_or_with_it",
    ),
    "handlers are awaited at the roll": Removed(
        (*SLOW_HANDLER, Change("workflows/engine/continue_as_new.py", WAIT, "")),
        SIGNALS_OVER_ROLLS,
    ),
    "a paused run starts no step": Removed(
        (
            Change(
                "workflows/engine/lifecycle.py",
                "if run.mid_stage or not run.state.control.paused or run.ending() is not None:",
                "if True:",
            ),
            Change(
                "workflows/engine/step_runner.py",
                "if not self.run.state.control.paused or self.run.state.control.stop is not None:",
                "if True:",
            ),
        ),
        "tests/chaos/test_server_and_disk.py::test_r10_a_pause_before_the_first_task_is_honoured",
    ),
}


def _changed(folder: Path, changes: tuple[Change, ...]) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "histories")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
    (folder / "docs").mkdir()
    # What the tests themselves read: their settings, and which of them show a promise.
    for name in ("pyproject.toml", "docs/promises.md"):
        shutil.copy(ROOT / name, folder / name)
    for change in changes:
        source = folder / change.file
        text = source.read_text()
        assert text.count(change.before) == 1, f"{change.file} no longer has: {change.before}"
        source.write_text(text.replace(change.before, change.after))


def _run(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", test, "-q", "-x", "-p", "no:cacheprovider"],
        cwd=folder,
        # Without its guard a run may never end, and its test then ends by its time limit.
        env={**os.environ, "PYTHONPATH": str(folder), "PATIENCE_S": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )


@pytest.mark.parametrize("guard", GUARDS.values(), ids=list(GUARDS))
def test_what_is_taken_away_is_there(guard: Removed) -> None:
    for change in guard.changes:
        assert (ROOT / change.file).read_text().count(change.before) == 1, change
    place, *names = guard.caught_by.split("::")
    assert f"def {names[0].split('[')[0]}(" in (ROOT / place).read_text()


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # so that these minutes are not the last
@pytest.mark.parametrize("guard", GUARDS.values(), ids=list(GUARDS))
def test_a_removed_guard_is_missed(guard: Removed, tmp_path: Path) -> None:
    _changed(tmp_path, guard.changes)
    played = _run(tmp_path, guard.caught_by)
    assert played.returncode == FAILED, played.stdout[-3000:] + played.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "test"),
    [
        pytest.param((), GUARDS["large payloads go to the store"].caught_by, id="as it is"),
        pytest.param(SLOW_HANDLER, SIGNALS_OVER_ROLLS, id="a slow handler, awaited"),
    ],
)
def test_the_copy_passes_with_its_guards(
    changes: tuple[Change, ...], test: str, tmp_path: Path
) -> None:
    _changed(tmp_path, changes)
    played = _run(tmp_path, test)
    assert played.returncode == PASSED, played.stdout[-3000:] + played.stderr[-3000:]
