"""Every built-in loop runs to its end; loops of a workspace run as they stood at the start."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from installation import Installation
from teams import APPROVED, rejected, says, script
from waiting import eventually

from perdure.domain.run.messages import Answer
from perdure.interfaces.definitions import BUILT_IN

RUNS: dict[str, tuple[dict[str, object], Sequence[dict[str, object]], str, list[str]]] = {
    "harness": (
        {},
        [
            says("plan", "1. Do it."),
            says("coder", "done"),
            says("reviewer", "NEEDS CHANGES\n\nThere is no test."),
            says("plan", "1. Add the test."),
            says("coder", "added"),
            says("reviewer", APPROVED),
        ],
        "approved",
        ["plan", "code", "review"],
    ),
    "research": (
        {"output_format": "a comparison table"},
        [
            says("explorer", "two queues, both fast"),
            says("coder", "| a | b |", when={"contains": "Write the findings up as a comparison"}),
            says("reviewer", "APPROVED", when={"contains": "Review the result as a comparison"}),
        ],
        "approved",
        ["explore", "write", "review"],
    ),
    "goal-driven": (
        {},
        [
            says("plan", "half of it", times=2),
            says("coder", "one test fails"),
            says("evaluator", {"achieved": False, "rationale": "one test fails"}),
            says("coder", "all tests pass"),
            says("evaluator", {"achieved": True, "rationale": "all tests pass"}),
        ],
        "goal_achieved",
        ["plan", "code"],
    ),
    "docs-review": (
        {"audience": "operators"},
        [
            says("writer", "wrote docs/run.md", when={"contains": "for operators"}),
            says("reviewer", "APPROVED, no changes needed."),
        ],
        "approved",
        ["write", "review"],
    ),
    "diverge-converge": (
        {"second_view": "the least to operate"},
        [
            says("explorer", "one queue", when={"contains": "the simplest thing that works"}),
            says("explorer", "no queue at all", when={"contains": "the least to operate"}),
            says("synthesizer", "No queue, and here is why.", when={"contains": "no queue at all"}),
            says("reviewer", APPROVED),
        ],
        "approved",
        ["first", "second", "converge", "review"],
    ),
    "reflection": (
        {},
        [
            says("writer", "a dull draft"),
            says("critic", rejected("no reader would stay")),
            says("writer", "a better draft", when={"contains": "no reader would stay"}),
            says("critic", APPROVED),
        ],
        "approved",
        ["draft", "reflect"],
    ),
}


def test_every_built_in_loop_is_run() -> None:
    assert RUNS.keys() == {path.stem for path in BUILT_IN.glob("*.yaml")}


@pytest.fixture
async def site(bare: Installation) -> AsyncIterator[Installation]:
    async with bare.worker():
        yield bare


@pytest.mark.parametrize("name", RUNS)
async def test_a_built_in_loop_runs_to_its_end(name: str, site: Installation) -> None:
    parameters, replies, reason, stages = RUNS[name]
    result = await site.run(
        {
            "kind": "roles",
            "goal": "Decide on a queue.",
            "learn": False,
            "roles": {"definition": name, "parameters": parameters},
        },
        script(replies),
    )
    assert (result.outcome, result.reason) == ("accepted", reason), result.explanation
    records = await site.records(result.id)
    for record in records:
        assert [stage.name for stage in record.stages] == stages
    assert sum(len(record.stages) for record in records) == sum(
        int(str(reply.get("times", 1)))
        for reply in replies
        if reply["when"] != {"role": "evaluator"}
    )


OWN = {
    "name": "own",
    "parameters": [{"name": "what"}],
    "roles": [
        {"role": "coder", "access": "readonly", "prompt": "Change {{what}} as it was asked."},
        {"role": "reviewer", "prompt": "Review it."},
    ],
    "termination_condition": {"type": "evaluation_bound", "value": "It is done."},
}


@pytest.mark.long
async def test_an_edit_never_changes_a_run_that_is_under_way(
    site: Installation, tmp_path: Path
) -> None:
    path = tmp_path / "loops" / "own.json"
    path.parent.mkdir()
    path.write_text(json.dumps(OWN), encoding="utf-8")
    asks = "NEEDS_CONTEXT: which colour?"
    run = await site.start(
        {
            "kind": "roles",
            "goal": "Paint {{what}}.",
            "learn": False,
            "workspace": str(tmp_path),
            "roles": {"definition": "own", "parameters": {"what": "the {{door}}"}},
        },
        script(
            [
                says("coder", asks, when={"contains": "Change the {{door}} as it was asked."}),
                says("coder", "first coat"),
                says("reviewer", rejected("one coat only"), when={"contains": "Review it."}),
                says("coder", "second coat", when={"contains": "Change the {{door}} as it was"}),
                says("reviewer", APPROVED, when={"contains": "It is done."}),
            ]
        ),
    )
    await eventually(lambda: _waits(site, run))
    path.write_text("this is no definition any more", encoding="utf-8")
    await site.gateway.verb(run, Answer(gate="g1", text="red"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "approved"), result.explanation
    assert result.output == "second coat"


async def _waits(site: Installation, run: str) -> bool:
    return bool((await site.status(run)).gates)
