"""Hooks through real runs: what adapts, what is told, and what becomes of failures."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from delegating import completes, delegates, delegation, works
from delegating import script as delegation_script
from installation import Installation, installation
from refining import (
    TONE,
    WORDS_CHECK,
    at_call,
    draft,
    events,
    judged,
    prompt_of,
    spec,
    verdict,
    written,
)
from teams import APPROVED, says, task
from teams import script as team_script
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.activities.hooks import RunHook
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.hooks import HookRequest
from perdure.domain.run.messages import Stop
from perdure.domain.run.spec import Timing
from perdure.domain.specs import RUN_SPEC

ENOUGH = {"name": "enough", "evaluator": {"check": "probe.enough"}}
PROBES = ("probe_hooks",)
FEWER = {"adapt": {"name": "probe.fewer", "start": {"least": 6}}}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the hooks of `probe_hooks` note what they are told."""
    path = tmp_path / "hooks.jsonl"
    monkeypatch.setenv("HOOK_LEDGER", str(path))
    return path


def noted(ledger: Path) -> list[list[object]]:
    return [json.loads(line) for line in ledger.read_text("utf-8").splitlines()]


def hooked(hooks: Mapping[str, object], *rubric: object, **refine: object) -> dict[str, object]:
    """A refine run with hooks."""
    return {**spec(rubric or (WORDS_CHECK,), **refine), "hooks": dict(hooks)}


async def test_an_adaptation_is_prompted_checked_and_recorded(bare: Installation) -> None:
    task = hooked(FEWER, ENOUGH, TONE, improvement_threshold=None)
    # The same words again: what they are measured by is another, so all is scored anew.
    script = {
        "replies": [*written("oak elm ash", "oak elm ash"), *judged(verdict(0.5), verdict(1.0))]
    }
    async with bare.worker(plugins=PROBES):
        run = await bare.start({**task, "refine": {**task["refine"], "max_iterations": 2}}, script)  # type: ignore[dict-item]
        result = await bare.gateway.result(run)
        told = [str(await prompt_of(bare, record.transcript)) for record in result.iterations]
    first, second = result.iterations
    assert (first.dimensions["enough"].score, first.adapted) == (0.5, {"least": 4})
    assert (first.adaptation or "").startswith("least: 4; ")
    assert (second.dimensions["enough"].score, second.adapted) == (0.75, None)
    assert (second.evaluation, second.dimensions["tone"].score) == ("full", 1.0)
    assert ["least: 6" in told[0], "least: 4" in told[1]] == [True, True]
    assert "least: 6" not in told[1]
    assert [record.adapted for record in await bare.records(run)] == [{"least": 4}, None]


@pytest.mark.parametrize(
    ("on_error", "outcome", "iterations"), [("continue", "best_effort", 2), ("fail", "failed", 1)]
)
async def test_an_adaptation_that_fails(
    bare: Installation, on_error: str, outcome: str, iterations: int
) -> None:
    use = {"name": "probe.at-odds", "start": {"least": 6}, "on_error": on_error}
    task = hooked({"adapt": use}, ENOUGH, max_iterations=2, improvement_threshold=None)
    async with bare.worker(plugins=PROBES):
        run = await bare.start(task, {"replies": written("oak", "oak elm")})
        result = await bare.gateway.result(run)
        status = await bare.status(run)
    assert (result.outcome, len(result.iterations)) == (outcome, iterations)
    failure = result.hook_failures[0]
    assert (failure.kind, failure.name, failure.iteration) == ("adapt", "probe.at-odds", 1)
    assert "an object of named values (found list)" in failure.message
    assert "adapt probe.at-odds failed" in (result.iterations[0].adaptation or "")
    assert status.hook_failures == result.hook_failures
    if on_error == "fail":
        assert (result.reason, "probe.at-odds" in (result.error or "")) == ("hook_failed", True)


async def test_each_iteration_and_the_end_are_told_once(bare: Installation, ledger: Path) -> None:
    hooks = {"on_iteration": ["probe.tell"], "on_end": ["probe.bury"]}
    replies = written(draft(0.5, "a"), draft(1.0, "b"))
    async with bare.worker(plugins=PROBES):
        run = await bare.start(hooked(hooks), {"replies": replies})
        result = await bare.gateway.result(run)
    assert result.outcome == "accepted"
    told = noted(ledger)
    assert [line[:4] for line in told if line[0] == "iteration"] == [
        ["iteration", 1, 0.5, draft(0.5, "a")],
        ["iteration", 2, 1.0, draft(1.0, "b")],
    ]
    assert [line[1:3] for line in told if line[0] == "end"] == [["accepted", draft(1.0, "b")]]
    assert (len(told), len({str(line[-1]) for line in told})) == (3, 3)


async def test_nothing_is_told_twice_across_continue_as_new(
    server: WorkflowEnvironment, tmp_path: Path, ledger: Path
) -> None:
    """Each execution of the run is a few events long, and what adapts goes along."""
    address = server.client.service_client.config.target_host
    hooks = {**FEWER, "on_iteration": ["probe.tell"], "on_end": ["probe.bury"]}
    task = hooked(hooks, ENOUGH, max_iterations=3, improvement_threshold=None)
    timing, replies = Timing(roll_events=8), written("oak", "elm", "fir yew")
    at = installation(tmp_path / "home", address, timing=timing)
    async with at as site, site.worker(plugins=PROBES):
        run = await site.start(task, {"replies": replies})
        result = await site.gateway.result(run)
        described = await site.handle(run).describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
    assert [line[:2] for line in noted(ledger)] == [
        *(["iteration", index] for index in (1, 2, 3)),
        ["end", "accepted"],
    ]
    assert [record.adapted for record in result.iterations] == [{"least": 4}, {"least": 2}, None]


@pytest.mark.long
async def test_a_run_that_is_stopped_tells_its_end_also_if_its_worker_is_stopped(
    bare: Installation, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, ends = RunHook._facts, ["worker_shutdown"]

    async def stopped(self: RunHook, step: HookRequest) -> object:
        if step.result is not None and ends:
            raise ApplicationError("the worker stops", type=ends.pop(), non_retryable=True)
        return await facts(self, step)

    monkeypatch.setattr(RunHook, "_facts", stopped)
    hooks = {"on_iteration": ["probe.tell"], "on_end": ["probe.bury"]}
    replies = [{"text": draft(0.5)}, {"text": draft(1.0), "delay_s": 600}]
    async with bare.worker(plugins=PROBES):
        run = await bare.start(hooked(hooks), {"replies": replies})
        await at_call(bare, run, "executor", 2)
        await bare.gateway.verb(run, Stop(mode="now", by="ann"))
        result = await bare.gateway.result(run)
    assert (result.outcome, result.output) == ("stopped", draft(0.5))
    assert [line[1] for line in noted(ledger)] == [1, 2, "stopped"]


async def test_a_fork_goes_on_with_what_was_computed(bare: Installation) -> None:
    task = hooked(FEWER, ENOUGH, max_iterations=2, improvement_threshold=None)
    async with bare.worker(plugins=PROBES):
        run = await bare.start(task, {"replies": written("oak", "elm")})
        await bare.gateway.result(run)
        told = await bare.gateway.fork_spec(run, 1)
        model = await bare.script({"replies": written("oak elm fir")})
        models = told.models.model_copy(update={"executor": model})
        forked = await bare.gateway.fork(run, 1, told.model_copy(update={"models": models}))
        result = await bare.gateway.result(forked)
        prompt = str(await prompt_of(bare, result.iterations[-1].transcript))
    assert "least: 4" in prompt
    assert result.iterations[-1].score == 0.75


@pytest.mark.long
async def test_a_hook_that_fails_is_tried_again_then_named(
    bare: Installation, ledger: Path
) -> None:
    hooks = {"on_end": ["probe.stumble", "probe.bury"]}
    async with bare.worker(plugins=PROBES):
        run = await bare.start(hooked(hooks), {"replies": written(draft(1.0))})
        result = await bare.gateway.result(run)
        noticed = await events(bare, run)
    assert result.outcome == "accepted"
    # As often as steps of its kind are, under one key; the next hook is called all the same.
    assert list(Counter(str(line[-1]) for line in noted(ledger)).values()) == [3, 1]
    failure = result.hook_failures[0]
    assert (failure.kind, failure.name, failure.code) == ("on_end", "probe.stumble", "hook_failed")
    assert "nobody listens (probe_hooks.py, line" in failure.message
    assert [one.data["hook"] for one in noticed if one.type == "hook_failed"] == ["probe.stumble"]


# Of a run that works for another nothing is told: what it did is part of an iteration above it.
OTHER_KINDS: dict[str, tuple[dict[str, object], dict[str, object], int]] = {
    "agent": ({"kind": "agent", "goal": "Name a tree."}, {"replies": [{"text": "oak"}]}, 1),
    "roles": (
        task(),
        team_script(
            [says("plan", "the plan"), says("coder", "a draft"), says("reviewer", APPROVED)]
        ),
        1,
    ),
    "delegation": (delegation(), delegation_script(delegates("w1"), works("w1"), completes()), 2),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
async def test_every_kind_tells(bare: Installation, ledger: Path, kind: str) -> None:
    given, script, iterations = OTHER_KINDS[kind]
    hooks = {"on_iteration": "probe.tell", "on_end": "probe.bury"}
    async with bare.worker(plugins=PROBES):
        result = await bare.run({**given, "recall": False, "learn": False, "hooks": hooks}, script)
    assert result.outcome == "accepted"
    told = noted(ledger)
    assert [line[:2] for line in told] == [
        *(["iteration", index] for index in range(1, iterations + 1)),
        ["end", "accepted"],
    ]
    assert told[-1][2] == result.output


async def test_a_hook_that_nobody_serves_starts_nothing(bare: Installation) -> None:
    async with bare.worker(plugins=PROBES):
        states = await bare.gateway.readiness(RUN_SPEC.validate_python(spec()))
        (served,) = [state.hooks for state in states if state.hooks]
        assert (served["relevance_minimum"], served["probe.bury"]) == ("adapt", "on_end")
        with pytest.raises(InvalidInput, match=r"hooks.on_end\[0\].*probe\.buri.*probe\.bury"):
            await bare.run(hooked({"on_end": ["probe.buri"]}), {"replies": written("oak")})
        with pytest.raises(InvalidInput, match=r"hooks.adapt.*probe\.bury"):
            await bare.run(hooked({"adapt": "probe.bury"}), {"replies": written("oak")})
        # What only the worker can tell ends the run before a call is paid for.
        use = {"name": "probe.fewer", "parameters": {"by": "many"}}
        result = await bare.run(hooked({"adapt": use}), {"replies": written("oak")})
    assert (result.outcome, result.reason, result.spend.model_calls) == (
        "failed",
        "invalid_input",
        0,
    )
    assert "by" in (result.error or "")


@pytest.mark.slow
async def test_a_hook_outlives_its_worker(bare: Installation, ledger: Path) -> None:
    """The worker is killed inside the hook: another calls it again, under the same key."""
    environment = {
        "PERDURE_PLUGINS": "probe_hooks",
        "HOOK_LEDGER": str(ledger),
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
    }
    task = hooked({"on_end": ["probe.die-once"]})
    async with bare.worker_process(**environment) as process:
        run = await bare.start(task, {"replies": written(draft(1.0))})
        await eventually(lambda: ledger.exists())
        await process.gone()
        await process.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.hook_failures) == ("accepted", ())
    first, second = noted(ledger)
    assert first == second
