"""Reset, terminate and cancel through Temporal's own command line, at every level of a tree.

After each the run has the result of an undisturbed one, or says why it has none; the books count
every line of the provider's ledger, in all lives of a run; and nothing is left at work.
"""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ground import Ground
from provider import MODEL, Play
from teams import APPROVED, stage, task, team
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from trees import children_of
from waiting import eventually

from perdure.activities.open_run import OpenRun
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.llm.usage import Usage
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.run.activity_messages import OpenRunRequest
from perdure.domain.run.messages import Amend
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import RunFilter

TEMPORAL = Path(sys.executable).parent / "temporal"
BELOW = {"root": ["mid", "side"], "mid": ["leaf"]}
HELD = "leaf"
DONE = "root is done"
BOUND_S = 180.0
TO_THE_START = ("--type", "FirstWorkflowTask")
TO_THE_END = ("--type", "LastWorkflowTask")

UNLIMITED = {"tokens": 0, "cost_usd": 0}
TREE: Mapping[str, object] = {
    "kind": "delegation",
    "goal": "Do all of it.",
    "models": {"executor": MODEL},
    "tools": {"access": "minimal"},
    "budget": UNLIMITED,
    "delegation": {"critique": {"enabled": False}},
}

Body = Mapping[str, object]


async def temporal(drill: Ground, *words: str) -> None:
    """Say something with Temporal's command line; it must be understood."""
    config = drill.site.client.service_client.config
    process = await asyncio.create_subprocess_exec(
        str(TEMPORAL),
        *("workflow", *words),
        *("--address", config.target_host, "--namespace", drill.site.client.namespace),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def reset(drill: Ground, run: str, point: Sequence[str]) -> None:
    await temporal(drill, "reset", "-w", run, "--reason", "a drill", *point)


def tree_plays(body: Body) -> Sequence[Play]:
    """A manager with a sub-manager and a worker; the worker of the sub-manager is held."""
    asked = json.dumps(body["messages"])
    name = next((n for n in ("leaf", "side", "mid") if f"Do {n}." in asked), "root")
    if "Decide now" not in asked:
        reply = json.dumps({"result": f"{name} did it", "confidence": 0.8})
        return [Play(text=reply, gate="held" if name == HELD else None)]
    if "Newest iterations" in asked:
        final = DONE if name == "root" else f"{name} is done"
        return [Play(text=json.dumps({"decision": "complete", "final_result": final}))]
    work = [
        {"worker": worker, "instructions": f"Do {worker}.", "sub_manager": worker in BELOW}
        for worker in BELOW[name]
    ]
    return [Play(text=json.dumps({"decision": "delegate", "delegations": work}))]


async def managers(drill: Ground, **budget: object) -> str:
    """Start the tree, and wait until its lowest worker is in the middle of its call."""
    drill.provider.choose = tree_plays
    run = await drill.start(**{**TREE, "budget": {**UNLIMITED, **budget}})
    await held(drill)
    return run


async def held(drill: Ground, *, times: int = 1) -> None:
    """Wait until so many calls of the lowest worker reached the provider."""

    def reached() -> bool:
        asked = [json.dumps(body["messages"]) for body in list(drill.provider.bodies)]
        return sum(f"Do {HELD}." in text and "Decide now" not in text for text in asked) >= times

    await eventually(reached, seconds=BOUND_S)


async def named(drill: Ground, run: str, level: str) -> str:
    """The id of the root, or of the run of that name below it."""
    found = await children_of(drill.site, run)
    return run if level == "root" else next(one for one in found if one.endswith(f"-{level}"))


async def ended(drill: Ground, run: str) -> RunResult:
    """The result, once nothing of the tree runs any more."""
    handle = drill.site.handle(run)
    await asyncio.wait_for(_closed(handle), BOUND_S)
    await quiet(drill, run)
    return await drill.site.gateway.result(run)


async def _closed(handle: object) -> None:
    # How it ended is looked at in its result.
    with contextlib.suppress(WorkflowFailureError):
        await handle.result()  # type: ignore[attr-defined]


async def quiet(drill: Ground, run: str) -> None:
    """Wait until no execution whose id begins with the run's is open."""

    async def none() -> bool:
        query = f"WorkflowId = '{run}' OR WorkflowId STARTS_WITH '{run}.'"
        listed = drill.site.client.list_workflows(query)
        return all([one.status != WorkflowExecutionStatus.RUNNING async for one in listed])

    await eventually(none, seconds=BOUND_S)


async def booked(drill: Ground, run: str) -> list[AttemptRow]:
    """The journal of the tree, which accounts for each line of the provider's ledger."""
    rows = await drill.site.parts.stores.journal.tree(root=run, run=run)
    assert not [row for row in rows if row.state == "started"], rows
    billed = Counter(
        (line.input_tokens, line.output_tokens) for line in drill.provider.lines() if line.tokens
    )
    confirmed = Counter(
        (row.usage.input_tokens, row.usage.output_tokens)
        for row in rows
        if row.state == "answered" and not row.unconfirmed
    )
    assert not confirmed - billed, "what is confirmed was billed"
    unconfirmed = [row for row in rows if row.unconfirmed]
    assert (billed - confirmed).total() <= len(unconfirmed), (billed - confirmed, rows)
    whole = sum((row.usage for row in rows), Usage())
    assert sum(line.tokens for line in drill.provider.lines()) <= whole.counted_tokens()
    return rows


async def agrees(drill: Ground, result: RunResult) -> None:
    """The result tells all that the journal knows, over all lives."""
    rows = await booked(drill, result.id)
    whole = sum((row.usage for row in rows), Usage())
    assert result.spend.tokens == whole.counted_tokens()
    assert result.spend.model_calls == sum(row.sent for row in rows)
    status = await drill.site.status(result.id)
    assert (status.outcome, status.budget.tokens) == (result.outcome, result.spend.tokens)
    assert status.budget.reserved_tokens == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("level", "point", "orphans"),
    [
        pytest.param("root", TO_THE_START, True, id="root-to-the-start"),
        pytest.param(
            "root", TO_THE_END, False, id="root-keeps-its-children", marks=pytest.mark.slow
        ),
        pytest.param("mid", TO_THE_START, True, id="sub-manager", marks=pytest.mark.slow),
        pytest.param("leaf", TO_THE_START, False, id="worker", marks=pytest.mark.slow),
    ],
)
async def test_a_tree_that_was_reset_ends_as_if_nothing_had_happened(
    drill: Ground, level: str, point: Sequence[str], orphans: bool
) -> None:
    async with drill.site.worker():
        run = await managers(drill)
        target = await named(drill, run, level)
        before = await children_of(drill.site, run)
        await reset(drill, target, point)
        if orphans or level == "leaf":
            await held(drill, times=2)
        drill.provider.open("held")
        result = await ended(drill, run)
        assert (result.outcome, result.output) == ("accepted", DONE), result.explanation
        await agrees(drill, result)
        after = await children_of(drill.site, run)
        assert (set(after) > set(before)) == orphans, "children of a new life have new ids"


@pytest.mark.long
async def test_a_child_that_was_never_opened_before_a_reset_is_ended(
    drill: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    unopened, opening = set[str](), asyncio.Event()
    register = OpenRun._register

    async def held_back(self: OpenRun, step: OpenRunRequest) -> None:
        if "." in step.run and not opening.is_set():
            unopened.add(step.run)
            await opening.wait()
        await register(self, step)

    monkeypatch.setattr(OpenRun, "_register", held_back)
    drill.provider.choose = tree_plays
    drill.provider.open("held")
    async with drill.site.worker():
        run = await drill.start(**TREE)
        await eventually(lambda: len(unopened) == len(BELOW["root"]), seconds=BOUND_S)
        first = set(unopened)
        await reset(drill, run, TO_THE_START)
        # The new life has taken over once it starts children of its own.
        await eventually(lambda: len(unopened) > len(first), seconds=BOUND_S)
        opening.set()
        result = await ended(drill, run)
        assert (result.outcome, result.output) == ("accepted", DONE), result.explanation
        for child in first:
            assert not await drill.site.parts.stores.journal.has_spent(child)
        await agrees(drill, result)


@pytest.mark.long
@pytest.mark.parametrize(
    "level",
    [
        "root",
        pytest.param("mid", marks=pytest.mark.slow),
        pytest.param("leaf", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("verb", ["terminate", "cancel"])
async def test_a_tree_with_a_run_that_was_ended_from_outside_closes_its_books(
    drill: Ground, level: str, verb: str
) -> None:
    async with drill.site.worker():
        run = await managers(drill)
        target = await named(drill, run, level)
        await temporal(drill, verb, "-w", target)
        result = await ended(drill, run)
        drill.provider.open("held")
        wanted = {"root": "stopped"}.get(level, "accepted")
        assert result.outcome == wanted, result.explanation
        await agrees(drill, result)


def team_plays(body: Body) -> Sequence[Play]:
    """A coder who is held, and reviewers who approve."""
    asked = json.dumps(body)
    if "Do the coder." in asked and "Do the reviewer." not in asked:
        return [Play(text="the parser", gate="held")]
    return [Play(text=json.dumps(APPROVED))]


def nested_team() -> dict[str, object]:
    """A team whose first stage is a team."""
    below = LoopSnapshot.model_validate(team(stage("coder"), stage("reviewer")))
    loop = {"name": "build", "prompt": "Build the parser.", "loop": "team"}
    return task(team(loop, stage("reviewer", role="critic"), nested={"build": below}))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["root", "build"])
@pytest.mark.parametrize("verb", ["reset", "terminate", "cancel"])
async def test_a_team_with_a_team_below_closes_its_books(
    drill: Ground, level: str, verb: str
) -> None:
    drill.provider.choose = team_plays
    async with drill.site.worker():
        run = await drill.start(**nested_team())
        await drill.billed(1)
        target = await named(drill, run, level)
        if verb == "reset":
            await reset(drill, target, TO_THE_START)
            await drill.billed(2)
        else:
            await temporal(drill, verb, "-w", target)
        drill.provider.open("held")
        result = await ended(drill, run)
        wanted = {"reset": "accepted"}.get(verb, "stopped" if level == "root" else "failed")
        assert result.outcome == wanted, result.explanation
        await agrees(drill, result)


REFINES = {
    "kind": "refine",
    "goal": "Say it.",
    "rubric": [{"name": "said", "evaluator": {"check": "contains", "all": ["done"]}}],
}


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [pytest.param({}, id="agent"), pytest.param(REFINES, id="refine", marks=pytest.mark.slow)],
)
async def test_an_ended_run_that_was_reset_is_open_and_counts_both_lives(
    drill: Ground, kind: Mapping[str, object]
) -> None:
    drill.provider.plays = [Play(text="done")]
    async with drill.site.worker():
        run = await drill.start(**kind)
        first = await ended(drill, run)
    billed = len(drill.provider.lines())
    await reset(drill, run, TO_THE_START)
    status = await drill.site.status(run)
    assert (status.lifecycle, status.outcome) == ("running", None), "it waits for a worker"
    async with drill.site.worker():
        second = await ended(drill, run)
        assert (first.outcome, second.outcome, second.output) == ("accepted", "accepted", "done")
        assert len(drill.provider.lines()) == 2 * billed
        await agrees(drill, second)

    async def listed_once() -> bool:
        found = (await drill.site.gateway.list()).runs
        return [row.lifecycle for row in found if row.id == run] == ["completed"]

    await eventually(listed_once)


async def test_what_older_lives_spent_is_spent(drill: Ground) -> None:
    drill.provider.plays = [Play(text="done")]
    async with drill.site.worker():
        run = await drill.start(budget={"model_calls": 1})
        await ended(drill, run)
        await reset(drill, run, TO_THE_START)
        result = await ended(drill, run)
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert len(drill.provider.lines()) == 1, "the one permitted call was made in the older life"


async def test_a_reset_without_an_amendment_takes_it_from_the_store_too(drill: Ground) -> None:
    drill.provider.plays = [Play(text="done", gate="held")]
    records, amended = drill.site.parts.stores.records, "Say it twice."
    async with drill.site.worker():
        run = await drill.start(budget={"model_calls": 5})
        await drill.billed(1)
        await drill.site.gateway.verb(
            run, Amend(goal=amended, budget={"model_calls": 9}, by="somebody")
        )
        before = await records.run(run)
        assert before is not None
        assert before.goal == amended
        await reset(drill, run, (*TO_THE_START, "--reapply-exclude", "Update"))

        async def as_it_began() -> bool:
            row = await records.run(run)
            assert row is not None
            assert row.status is not None
            limits = RunStatus.model_validate_json(row.status).budget.limits
            return row.goal != amended and limits.model_calls == 5

        await eventually(as_it_began, seconds=BOUND_S)
        drill.provider.open("held")
        result = await ended(drill, run)
        row = await records.run(run)
    assert result.outcome == "accepted"
    assert row is not None
    assert row.spec is not None
    assert amended.encode() not in await drill.site.parts.stores.blobs.get(row.spec)


@pytest.mark.long
async def test_a_child_that_was_reset_after_its_end_does_nothing_again(drill: Ground) -> None:
    async with drill.site.worker():
        run = await managers(drill)
        drill.provider.open("held")
        result = await ended(drill, run)
        billed = len(drill.provider.lines())
        for level in ("leaf", "mid"):
            await reset(drill, await named(drill, run, level), TO_THE_START)
        again = await ended(drill, run)
        assert len(drill.provider.lines()) == billed, "the parent has the result already"
        below = await children_of(drill.site, run)

        async def as_before() -> bool:
            found = (await drill.site.gateway.list(RunFilter(root=run, limit=50))).runs
            told = {row.id: (row.lifecycle, row.outcome) for row in found if row.id in below}
            return set(told.values()) == {("completed", "accepted")}

        await eventually(as_before)
        assert again == result
        await agrees(drill, again)
