"""Code that decides otherwise is caught by a recorded history: commands, words and numbers."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.about import VERSION

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
PACKAGES = ("perdure", "workflows", "activities")
ANY = "any"
ORDER = "for wave in self._waves(ready, turns):"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one source file, a line added at its end, and a recording that must notice.

    `ANY`: which ones do is chance, such as where a set has another order.
    """

    file: str
    before: str
    after: str
    caught_by: str
    added: str = ""


QUICK = {
    "the decision table changes its order": Mutation(
        "perdure/domain/refine/stop_rules.py",
        "person, max_iterations, low_score, tool_loop)",
        "person, low_score, max_iterations, tool_loop)",
        "refine_low_at_the_limit",
    ),
    "an explanation is worded otherwise": Mutation(
        "perdure/domain/refine/stop_rules.py",
        "The result can still get better.",
        "The result can get better still.",
        "refine_accepted_with_judge",
    ),
    "the roll is dropped": Mutation(
        "workflows/engine/continue_as_new.py",
        "        if not self.due():\n            return\n",
        "        return\n",
        "agent_rolled-1",
    ),
}
SLOW = {
    "a threshold must be passed, not reached": Mutation(
        "perdure/domain/evaluation/trajectory.py",
        "self.current >= rounded(threshold)",
        "self.current > rounded(threshold)",
        "refine_just_enough",
    ),
    "a tie or worse is kept as the best": Mutation(
        "perdure/domain/refine/iteration_rules.py",
        "if best is not None and best.iteration == state.iteration:",
        "if best is not None:",
        "refine_regression_abort",
    ),
    "randomness without a seed": Mutation(
        "perdure/domain/refine/stop_rules.py",
        '"The result can still get better."',
        'f"The result can still get better, {random.random()}."',
        "refine_accepted_with_judge",
        added="import random",
    ),
    "calls run in the order of a set": Mutation(
        "workflows/engine/tool_calls.py",
        "for wave in self._waves(ready, turns):",
        "by_id = {entry.call.id: entry for entry in ready}\n"
        "        for wave in self._waves([by_id[i] for i in set(by_id)], turns):",
        ANY,
    ),
    "two steps change places": Mutation(
        "workflows/engine/tool_calls.py",
        ORDER,
        "for wave in self._waves(ready[::-1], turns):",
        "agent_with_tools",
    ),
    "a step is renamed": Mutation(
        "activities/evaluation.py",
        "@activity.defn\n",
        '@activity.defn(name="examine")\n',
        "refine_plateau",
    ),
    "a timer is added": Mutation(
        "workflows/refine_parts/evaluation.py",
        '        self.run.set_phase("evaluating")\n',
        '        self.run.set_phase("evaluating")\n        await workflow.sleep(0.001)\n',
        "refine_plateau",
    ),
    "the snapshot is skipped": Mutation(
        "workflows/engine/snapshots.py",
        "if run.state.base_tree is None:",
        "if run.state.base_tree != run.state.root:",
        "refine_files_rolled-1",
    ),
    "activity ids begin elsewhere": Mutation(
        "workflows/engine/run.py",
        "steps_started = 0",
        "steps_started = 1",
        "agent_approval_answered",
    ),
    "a number of the estimate changes": Mutation(
        "workflows/engine/judging_costs.py",
        "JUDGE_PROMPT_TOKENS = 400",
        "JUDGE_PROMPT_TOKENS = 401",
        "refine_accepted_with_judge",
    ),
    "what a person answered is forgotten": Mutation(
        "workflows/engine/limit_questions.py",
        "if gate.answer.text:",
        "if not gate.answer.text:",
        "refine_escalated",
    ),
    "a failed model is not left": Mutation(
        "workflows/engine/model_caller.py",
        "seat: following}",
        "seat: following - 1}",
        "agent_failover",
    ),
    "a denied call runs": Mutation(
        "workflows/engine/tool_calls.py",
        'answer.choice == "approve":',
        'answer.choice != "later":',
        "agent_approval_answered",
    ),
    "an amended rubric is not scored anew": Mutation(
        "workflows/refine_parts/amendments.py",
        "await self._rescored_best()",
        "None",
        "refine_amended_rubric",
    ),
    "one rejection more before a person is asked": Mutation(
        "perdure/domain/roles/stop_rules.py",
        "facts.rework_limit <= facts.rejections",
        "facts.rework_limit < facts.rejections",
        "roles_rework_granted",
    ),
    "a child gets another share": Mutation(
        "perdure/domain/budget/allowances.py",
        "share = Decimal(str(min(high, max(low, wanted))))",
        "share = Decimal(str(min(high, max(low, wanted)))) / 2",
        "delegation_sub_manager",
    ),
    "money is not counted": Mutation(
        "perdure/domain/run/status_views.py", "cost_usd=", "cost_usd=0 *", "agent_rolled-1"
    ),
}


# The change of "two steps change places", behind the marker that a release needs.
PATCHED = Mutation(
    "workflows/engine/tool_calls.py",
    ORDER,
    'newest_first = workflow.patched("newest-call-first")\n'
    "        for wave in self._waves(ready[::-1] if newest_first else ready, turns):",
    "agent_with_tools",
    added="from temporalio import workflow",
)


def _copied(folder: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, symlinks=True)


def _departed(folder: Path, *names: str) -> dict[str, str]:
    """Name and problem of each recording (or of those named) that the code plays otherwise."""
    # The core logs to standard output; what was found is the last line. A set has its own order.
    played = subprocess.run(
        [sys.executable, "-P", str(SUPPORT / "play_recordings.py"), str(folder), *names],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(folder), str(SUPPORT))),
            "PYTHONHASHSEED": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert played.returncode == 0, played.stderr[-3000:]
    return json.loads(played.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "mutation",
    [*QUICK.values(), *SLOW.values(), PATCHED],
    ids=[*QUICK, *SLOW, "a changed order behind its marker"],
)
def test_what_a_mutation_changes_is_there(mutation: Mutation) -> None:
    assert mutation.before in (ROOT / mutation.file).read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "mutation",
    [
        *(pytest.param(value, id=name) for name, value in QUICK.items()),
        *(pytest.param(value, id=name, marks=pytest.mark.slow) for name, value in SLOW.items()),
    ],
)
def test_a_changed_decision_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    # One replay says it. All of them are a minute of work for each mutation.
    names = [] if mutation.caught_by == ANY else [f"{VERSION}/{mutation.caught_by}"]
    assert _caught(mutation, tmp_path, *names)


@pytest.mark.slow
def test_a_changed_order_behind_a_patch_marker_replays(tmp_path: Path) -> None:
    """What a release changes in its commands goes behind `workflow.patched`; unmarked it departs.

    The same change without a marker is "two steps change places".
    """
    assert _caught(PATCHED, tmp_path) == {}


def _caught(mutation: Mutation, folder: Path, *names: str) -> dict[str, str]:
    """The recordings that notice a mutation, with what they say."""
    _copied(folder)
    source = folder / mutation.file
    text = source.read_text()
    assert mutation.before in text, f"the mutation no longer applies to {mutation.file}"
    source.write_text(f"{text.replace(mutation.before, mutation.after)}\n{mutation.added}\n")
    caught = _departed(folder, *names)
    print("\n".join(f"{name}: {why}" for name, why in caught.items()))
    return caught


@pytest.mark.slow
def test_the_copied_code_itself_departs_from_nothing(tmp_path: Path) -> None:
    _copied(tmp_path)
    assert _departed(tmp_path) == {}
