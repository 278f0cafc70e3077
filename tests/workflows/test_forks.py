"""Forks on a real server: from every iteration, with files, from the store alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from agent_runs import Reply, books_agree, call, calls, conversation, echo, script, task
from installation import Installation
from refining import WORDS_CHECK, draft, drafts, prompt_of, spec

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.result import Origin, RunResult
from perdure.domain.specs import Spec


async def forked(
    site: Installation, run: str, iteration: int, replies: Sequence[Reply], /, **changes: object
) -> RunResult:
    """The end of a fork whose model gives these replies."""
    return await site.gateway.result(await fork(site, run, iteration, replies, **changes))


async def fork(
    site: Installation, run: str, iteration: int, replies: Sequence[Reply], /, **changes: object
) -> str:
    told = await site.gateway.fork_spec(run, iteration)
    model = await site.script({"replies": list(replies)})
    models = told.models.model_copy(update={"executor": model})
    return await site.gateway.fork(
        run, iteration, told.model_copy(update={"models": models, **changes})
    )


def written(path: str, content: str) -> Reply:
    return calls(call("fs.write", path=path, content=content, expected_hash="absent"))


def limits(told: Spec, **settings: object) -> dict[str, object]:
    assert isinstance(told, RefineSpec)
    return {"refine": told.refine.model_copy(update=settings)}


@pytest.mark.parametrize("iteration", [1, 2, 3])
async def test_a_fork_goes_on_from_each_iteration(site: Installation, iteration: int) -> None:
    run = await site.start(
        spec(max_iterations=3, improvement_threshold=None, regression_threshold=1),
        {"replies": drafts(0.3, 0.6, 0.5)},
    )
    parent = await site.gateway.result(run)
    told = await site.gateway.fork_spec(run, iteration)
    more = [{"text": draft(0.7, "other")}, {"text": draft(1.0, "done")}]
    result = await forked(site, run, iteration, more, **limits(told, max_iterations=5))

    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.forked_from == Origin(run=run, iteration=iteration)
    scores = [0.3, 0.6, 0.5][:iteration]
    assert [item.score for item in result.iterations] == [*scores, 0.7, 1.0]
    assert [item.index for item in result.iterations] == list(range(1, iteration + 3))
    assert [item.origin for item in result.iterations] == [*[run] * iteration, None, None]
    assert (result.spend.model_calls, result.iteration_count) == (2, iteration + 2)
    await books_agree(site, result)
    own = await site.records(result.id)
    prompt = await prompt_of(site, own[iteration].transcript)
    assert f"number{iteration}" in "\n".join(text for _, text in prompt)
    assert (await site.gateway.result(run)) == parent
    status = await site.status(result.id)
    assert status.forked_from == Origin(run=run, iteration=iteration)


async def test_a_fork_knows_outputs_and_the_best_of_before(site: Installation) -> None:
    run = await site.start(
        spec(max_iterations=3, improvement_threshold=None, regression_threshold=1),
        {"replies": drafts(0.3, 0.6, 0.5)},
    )
    await site.gateway.result(run)
    seen = await forked(site, run, 3, [{"text": draft(0.3, "number1")}])
    assert (seen.reason, seen.best and seen.best.iteration) == ("max_iterations", 2)
    told = await site.gateway.fork_spec(run, 2)
    again = await forked(
        site, run, 2, [{"text": draft(0.3, "number1")}], **limits(told, max_iterations=9)
    )
    assert (again.reason, again.best and again.best.iteration) == ("repeated_output", 2)
    assert again.output == draft(0.6, "number2")


async def test_a_fork_under_another_rubric_scores_the_best_anew(site: Installation) -> None:
    run = await site.start(spec(max_iterations=2), {"replies": drafts(0.3, 0.6)})
    await site.gateway.result(run)
    told = await site.gateway.fork_spec(run, 2)
    easier = {**WORDS_CHECK, "evaluator": {"check": "contains", "all": ["oak", "elm"]}}
    harder = RefineSpec.model_validate({**told.model_dump(), "rubric": [easier]})
    result = await forked(site, run, 2, [{"text": "oak alone"}], rubric=harder.rubric)
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (2, 1.0)
    assert result.output == draft(0.6, "number2")


@pytest.mark.long
async def test_a_fork_restores_the_files_of_its_iteration(
    site: Installation, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was\n")
    turns: list[Reply] = []
    for number, score in enumerate((0.3, 0.6, 0.5), start=1):
        turns.append(written(f"note{number}.txt", f"{number}\n"))
        turns.append({"text": draft(score, f"number{number}")})
    run = await site.start(
        {
            **spec(max_iterations=3, improvement_threshold=None, regression_threshold=1),
            "workspace": str(folder),
            "tools": {"access": "full", "allow": ["fs.read", "fs.write"]},
        },
        script(*turns),
    )
    parent = await site.gateway.result(run)
    (folder / "kept.txt").write_text("changed by the user\n")
    base = await site.parts.workspaces.base(run=run)
    await site.parts.workspaces.release(run=run)

    result = await forked(
        site, run, 1, [written("fork.txt", "new\n"), {"text": draft(1.0, "done")}]
    )
    assert result.outcome == "accepted", result.explanation
    patch = next(item.ref for item in result.artifacts if item.kind == "patch")
    text = await site.parts.stores.blobs.get_text(patch)
    named = {line[6:] for line in text.splitlines() if line.startswith("+++ b/")}
    assert named == {"note1.txt", "fork.txt"}
    assert await site.parts.workspaces.base(run=result.id) == base.model_copy(
        update={"bytes": 0, "tokens": type(base.tokens)()}
    )
    tree = next(item.ref for item in result.artifacts if item.kind == "tree")
    changed = await site.parts.workspaces.apply(base=base.hash, tree=tree, target=str(folder))
    assert sorted(changed) == ["fork.txt", "note1.txt"]
    assert (folder / "kept.txt").read_text() == "changed by the user\n"
    assert parent.best is not None


async def test_an_agent_run_forks_in_the_middle_and_at_its_end(site: Installation) -> None:
    run = await site.start(task(), script(echo("one"), echo("two"), {"text": "first answer"}))
    await site.gateway.result(run)
    middle = await forked(site, run, 1, [echo("other"), {"text": "second answer"}])
    assert (middle.output, middle.iteration_count) == ("second answer", 3)
    assert middle.tools_used == {"probe.echo": 2}
    said = [message.text for message in await conversation(site, middle.transcript)]
    assert "first answer" not in said
    await books_agree(site, middle)
    end = await forked(site, run, 3, [{"text": "third answer"}], goal="do something else")
    assert end.output == "third answer"
    said = [message.text for message in await conversation(site, end.transcript)]
    assert "first answer" in said
    assert any("The task is now: do something else" in text for text in said)
    assert end.spend.model_calls == 1


async def test_a_fork_of_a_fork_names_both(site: Installation) -> None:
    run = await site.start(spec(max_iterations=1), {"replies": drafts(0.3)})
    await site.gateway.result(run)
    first = await forked(site, run, 1, [{"text": draft(0.6, "two")}])
    second = await forked(site, first.id, 2, [{"text": draft(0.9, "three")}])
    assert second.forked_from == Origin(run=first.id, iteration=2)
    assert [item.origin for item in second.iterations] == [run, first.id, None]


async def test_what_cannot_be_forked_is_refused_with_what_can(site: Installation) -> None:
    run = await site.start(task(), script(echo("one"), {"text": "answer"}))
    await site.gateway.result(run)
    with pytest.raises(InvalidInput, match=r"has no iteration 7.*It has: 1, 2\."):
        await site.gateway.fork_spec(run, 7)
    told = await site.gateway.fork_spec(run, 1)
    with pytest.raises(
        InvalidInput, match=r"context: found a change; the fork continues a conversation"
    ):
        await site.gateway.fork(run, 1, told.model_copy(update={"context": {"a": "b"}}))
    row = await site.parts.stores.records.run(run)
    assert row is not None
    await site.parts.stores.records.put_run(row.model_copy(update={"spec": None}))
    with pytest.raises(NotAllowed, match="does not have the specification"):
        await site.gateway.fork_spec(run, 1)


async def test_the_same_key_forks_once(site: Installation) -> None:
    run = await site.start(spec(max_iterations=1), {"replies": drafts(0.3)})
    await site.gateway.result(run)
    told = await site.gateway.fork_spec(run, 1)
    ids = {await site.gateway.fork(run, 1, told, idempotency_key="once") for _ in range(3)}
    assert len(ids) == 1
