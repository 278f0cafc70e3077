"""Tools that workers ask for, on a real server: made, repaired, approved, used, and told."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from agent_runs import event_types, gate_of
from delegating import books_of_the_tree_agree, completes, delegates, delegation, script, works
from drafts import COUNT, TEXT_SCHEMA, draft, returning
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Answer, Resume
from perdure.domain.run.spec import Timing

POSITIONAL = COUNT.replace("(*, ", "(")
TOOLS = {"access": "readonly"}


def wants(
    worker: str, code: str = COUNT, name: str = "text.count", *, sure: float = 0.9
) -> dict[str, object]:
    """A worker's reply that asks for a tool; who is less `sure` needs it for its own work."""
    tool = {
        "name": name,
        "code": code,
        "schema": TEXT_SCHEMA,
        "examples": [{"arguments": {"text": "a b"}, "result": {"words": 2}}],
    }
    return dict(works(worker, "counted by hand", sure, tools_needed=[tool]))


def told(reply: Mapping[str, object], *, contains: str) -> dict[str, object]:
    """The same reply, given only to a prompt that holds some words."""
    when = reply["when"]
    assert isinstance(when, Mapping)
    return {**reply, "when": {**when, "contains": contains}}


def repairs(code: str = COUNT, **more: object) -> dict[str, object]:
    """The repair model's reply."""
    said = {"code": code, "schema": json.dumps(TEXT_SCHEMA)}
    return {"when": {"role": "repair"}, "json": said, **more}


def calls(worker: str, text: str = "one two three", name: str = "text.count") -> dict[str, object]:
    """A worker that uses the tool."""
    call = {"name": name, "arguments": {"text": text}}
    return {"when": {"role": "worker", "worker": worker}, "tool_calls": [call]}


@pytest.mark.long
async def test_a_tool_is_made_repaired_and_used_by_a_later_worker(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(
            delegates("w1"),
            wants("w1", POSITIONAL),
            repairs(),
            delegates("w2"),
            calls("w2"),
            works("w2", "3 words"),
            completes(),
        ),
    )
    assert result.outcome == "accepted"
    assert result.tools_created == ("text.count",)
    assert result.made_tools == {"text.count": draft().hash}
    assert result.tools_used == {"text.count": 1}
    told = await event_types(site, result.id)
    assert (told.count("tool_refused"), told.count("tool_created")) == (1, 1)
    kept = await site.parts.stores.made_tools.get(draft().hash)
    assert kept is not None
    makers = await site.parts.stores.made_tools.makers(kept.hash)
    assert [(maker.root, maker.worker) for maker in makers] == [(result.id, "w1")]
    child = await site.gateway.result(next(id for id in result.spend.by_child if "w2" in id))
    said = await site.parts.stores.transcripts.load(child.transcript or "")
    told = [message.model_dump_json() for message in said]
    assert any('"words": 3' in one.replace("\\n", "").replace('\\"', '"') for one in told), told
    await books_of_the_tree_agree(site, result)


async def test_who_lacks_a_tool_gets_it_in_the_same_iteration(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(
            delegates("w1"),
            wants("w1", POSITIONAL, sure=0.3),
            repairs(),
            told(calls("w1_retry1"), contains="The tools that you asked for are made."),
            told(works("w1_retry1", "3 words"), contains="counted by hand"),
            told(completes(), contains="w1, confidence 0.70: w1_retry1 found 3 words"),
        ),
    )
    assert (result.outcome, result.iteration_count) == ("accepted", 2)
    assert result.tools_used == {"text.count": 1}
    counted = result.tool_metrics
    assert (counted.attempts, counted.successes, counted.failures) == (1, 1, {"static": 1})
    assert (counted.repairs_tried, counted.repairs_won) == (1, 1)
    await books_of_the_tree_agree(site, result)


async def test_work_that_got_worse_with_the_tool_is_not_taken(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(
            delegates("w1", "w2"),
            wants("w1", sure=0.5),
            works("w2", "cork"),
            works("w1_retry1", "guessed", 0.2),
            told(completes(), contains="counted by hand"),
        ),
    )
    assert result.outcome == "accepted"
    first = (await site.gateway.records(result.id))[0]
    whole = await site.parts.stores.blobs.get_text(first.output_ref or "")
    assert "counted by hand" in whole and "cork" in whole and "guessed" not in whole


async def test_skills_of_the_first_try_are_not_lost(site: Installation) -> None:
    skill = "# Skill: Counting words\n\n" + "Split it at spaces and count. " * 8
    first = wants("w1", sure=0.3)
    said = first["json"]
    assert isinstance(said, dict)
    said["skills_created"] = [{"markdown": skill}]
    result = await site.run(
        delegation(tools=TOOLS),
        script(delegates("w1"), first, works("w1_retry1", "3 words"), completes()),
    )
    assert (result.outcome, result.skills) == ("accepted", ("counting-words",))


async def test_a_tool_that_is_refused_sends_nobody_back_to_work(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(delegates("w1"), wants("w1", returning("'canned'"), sure=0.3), completes()),
    )
    assert (result.outcome, result.tool_metrics.failures) == ("accepted", {"placeholder": 1})


async def test_a_run_tells_what_its_managers_made(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(
            delegates("w1", by="m1"),
            completes("Counted.", by="m1"),
            delegates("m1", sub_manager=True),
            wants("w1"),
            completes(),
        ),
    )
    assert (result.tools_created, result.tool_metrics.successes) == (("text.count",), 1)


@pytest.mark.long
async def test_the_manager_never_sees_what_went_wrong(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(delegates("w1"), wants("w1", "import os\n" + COUNT), repairs("no Python ("),
               repairs("import sys\n" + COUNT), completes()),
    )  # fmt: skip
    assert (result.outcome, result.tools_created) == ("accepted", ())
    transcripts = site.parts.stores.transcripts
    for record in result.iterations:
        if record.transcript is not None:
            said = [one.model_dump_json() for one in await transcripts.load(record.transcript)]
            assert not any("may not be imported" in text for text in said)
    rows = await site.parts.stores.journal.tree(root=result.id, run=result.id)
    assert [row.role for row in rows].count("repair") == 2


async def test_a_repair_that_cannot_be_read_ends_the_attempts(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(delegates("w1"), wants("w1", POSITIONAL),
               {"when": {"role": "repair"}, "text": "I cannot."}, completes()),
    )  # fmt: skip
    assert (result.outcome, result.tools_created) == ("accepted", ())


@pytest.mark.long
async def test_a_final_refusal_asks_nobody_for_a_repair(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(delegates("w1"), wants("w1", returning("'canned'")), completes()),
    )
    assert (result.outcome, result.tools_created) == ("accepted", ())
    assert result.spend.model_calls == 3


async def test_a_factory_that_is_switched_off_makes_nothing(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS, delegation={"tools_factory": {"enabled": False}}),
        script(delegates("w1"), wants("w1"), completes()),
    )
    assert (result.outcome, result.tools_created) == ("accepted", ())


async def test_a_person_approves_exactly_this_code(site: Installation) -> None:
    run = await site.start(
        delegation(tools=TOOLS, delegation={"tools_factory": {"approve": True}}),
        script(delegates("w1"), wants("w1"), delegates("w2"), calls("w2"),
               works("w2", "3 words"), completes()),
    )  # fmt: skip

    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    asked = (gate.kind, gate.args_hash, gate.subject)
    assert asked == ("tool_approval", draft().hash, "text.count")
    assert "def handler" in gate.prompt
    other = Answer(gate=gate.id, choice="approve", args_hash="a" * 64, by="ada")
    with pytest.raises(NotAllowed, match="other arguments"):
        await site.gateway.verb(run, other)
    await site.gateway.verb(run, other.model_copy(update={"args_hash": gate.args_hash}))
    result = await site.gateway.result(run)
    assert (result.outcome, result.tools_created) == ("accepted", ("text.count",))


async def test_a_tool_that_a_person_denies_is_not_offered(site: Installation) -> None:
    run = await site.start(
        delegation(tools=TOOLS, delegation={"tools_factory": {"approve": True}}),
        script(delegates("w1"), wants("w1"), completes()),
    )

    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    await site.gateway.verb(run, Answer(gate=gate.id, choice="deny", by="ada"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.tools_created) == ("accepted", ())


@pytest.mark.long
async def test_what_a_sub_managers_worker_made_flows_back(site: Installation) -> None:
    result = await site.run(
        delegation(tools=TOOLS),
        script(
            delegates("team", sub_manager=True),
            delegates("w1", by="team"),
            wants("w1"),
            completes("done", by="team"),
            delegates("w2"),
            calls("w2"),
            works("w2", "3 words"),
            completes(),
        ),
    )
    assert (result.outcome, result.tools_created) == ("accepted", ("text.count",))
    assert result.tools_used["text.count"] == 1
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
async def test_another_run_needs_a_persons_approval(site: Installation) -> None:
    first = await site.run(
        delegation(tools=TOOLS), script(delegates("w1"), wants("w1"), completes())
    )
    pinned = {"access": "readonly", "generated": first.made_tools}
    task = {"kind": "agent", "goal": "count", "tools": pinned}
    replies = {
        "replies": [
            {"tool_calls": [{"name": "text.count", "arguments": {"text": "a b"}}]},
            {"text": "Two."},
        ]
    }
    refused = await site.run(task, replies)
    assert (refused.outcome, refused.reason) == ("failed", "invalid_input")
    assert "nobody approved it" in (refused.error or refused.explanation)
    store = site.parts.stores.made_tools
    kept = await store.get(first.made_tools["text.count"])
    assert kept is not None
    await store.decide(kept.model_copy(update={"state": "approved", "decided_by": "ada"}))
    result = await site.run(task, replies)
    assert (result.outcome, result.tools_used) == ("accepted", {"text.count": 1})


@pytest.mark.long
async def test_a_question_about_a_tool_outlasts_execution_and_worker(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Nothing is done twice, and another worker uses the tool that the first one validated."""
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=60)
    async with installation(tmp_path / "rolling", address, timing=timing) as site:
        async with site.worker():
            run = await site.start(
                delegation(tools=TOOLS, delegation={"tools_factory": {"approve": True}}),
                script(delegates("w1"), wants("w1"), delegates("w2"), calls("w2"),
                       works("w2", "3 words"), completes()),
            )  # fmt: skip
            await eventually(lambda: gate_of(site, run))
            gate = await gate_of(site, run)
            assert gate is not None
            handle = site.handle(run)
            first = (await handle.describe()).run_id
            await asyncio.gather(*(handle.signal("resume", Resume()) for _ in range(80)))

            async def rolled() -> bool:
                return (await handle.describe()).run_id != first

            await eventually(rolled)
        async with site.worker():
            again = await gate_of(site, run)
            assert again is not None
            assert again.id == gate.id
            await site.gateway.verb(
                run, Answer(gate=gate.id, choice="approve", args_hash=gate.args_hash, by="ada")
            )
            result = await site.gateway.result(run)
        assert (result.outcome, result.tools_created) == ("accepted", ("text.count",))
        assert (result.spend.workers, result.tools_used) == (2, {"text.count": 1})
        rows = await site.parts.stores.journal.tree(root=result.id, run=result.id)
        assert [row.role for row in rows].count("worker") == 3
