"""Images and PDFs of a task reach whoever does or judges it, in every kind of loop."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_runs import books_agree, call, calls, conversation, results, script, task
from delegating import books_of_the_tree_agree, completes, delegates, delegation
from delegating import script as priced
from installation import Installation
from pictures import pdf, png
from refining import TONE, verdict
from refining import spec as refinement
from stages import open_gate
from teams import APPROVED, PAIR, team
from temporalio.client import Client

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.status import status_view
from perdure.submission.loading import load_data, store
from perdure.submission.types import Surroundings

CHART = {"base64": base64.b64encode(png(400, 300)).decode(), "name": "chart.png"}
PAPER = {"base64": base64.b64encode(pdf(2)).decode(), "name": "paper.pdf"}
SEES = {"sees": "image/png"}
LIKED = {"name": "liked", "description": "fit to send", "evaluator": {"human": {}}}


async def _run(
    site: Installation,
    spec: Mapping[str, Any],
    played: Mapping[str, object],
    **roles: object,
) -> RunResult:
    given: dict[str, Any] = {"context": {"chart": CHART}, **spec}
    given["models"] = {"executor": await site.script(played), **given.get("models", {})}
    submission = load_data(given, surroundings=Surroundings(folder=None))
    ready = await store(submission, site.parts.stores.blobs)
    if isinstance(ready, RolesSpec):
        ready = ready.model_copy(update={"roles": ready.roles.model_copy(update=roles)})
    return await site.gateway.result(await site.gateway.start(ready))


async def test_an_agent_is_shown_what_the_task_has(site: Installation) -> None:
    result = await _run(
        site,
        task(context={"chart": CHART, "paper": PAPER, "note": "mind the axis"}),
        priced({"when": SEES, "text": "Sales rise."}),
    )
    assert (result.outcome, result.output) == ("accepted", "Sales rise.")
    first = (await conversation(site, result.transcript))[0]
    assert [one.name for one in first.attachments] == ["chart.png", "paper.pdf"]
    assert "[image chart.png, image/png, 400 × 300 pixels" in first.text
    assert "[PDF paper.pdf, application/pdf, 2 pages" in first.text
    assert "mind the axis" in first.text
    await books_agree(site, result)


async def test_a_refine_loop_shows_it_to_executor_and_judge(site: Installation) -> None:
    result = await _run(
        site,
        refinement((TONE,), max_iterations=2),
        script(
            {"when": {"role": "executor", **SEES}, "text": "It falls.", "times": 1},
            {"when": {"role": "executor", **SEES}, "text": "It rises.", "times": 1},
            {"when": {"role": "evaluator", "contains": "It falls.", **SEES}, "json": verdict(0.2)},
            {"when": {"role": "evaluator", "contains": "It rises.", **SEES}, "json": verdict(1)},
        ),
    )
    assert (result.outcome, result.output) == ("accepted", "It rises.")


async def test_stages_of_roles_are_shown_it(site: Installation) -> None:
    result = await _run(
        site,
        {"kind": "roles", "goal": "Read it.", "learn": False, "roles": {"definition": "team"}},
        script(
            {"when": {"role": "coder", **SEES}, "text": "def f(): ..."},
            {"when": {"role": "reviewer", **SEES}, "json": APPROVED},
        ),
        snapshot=LoopSnapshot.model_validate(team(*PAIR)),
    )
    assert result.outcome == "accepted", result.explanation


async def test_a_manager_hands_it_on_to_its_workers(site: Installation) -> None:
    work = {"result": "a bottle", "confidence": 0.9, "findings": ["it is a bottle"]}
    result = await _run(
        site,
        delegation(),
        priced(
            delegates("a"),
            {"when": {"role": "worker", "worker": "a", **SEES}, "json": work},
            completes("A bottle."),
        ),
    )
    assert (result.outcome, result.output) == ("accepted", "A bottle."), result.explanation
    await books_of_the_tree_agree(site, result)


async def test_a_tool_shows_an_image_of_the_workspace(site: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "chart.png").write_bytes(png(40, 30))
    result = await _run(
        site,
        task(workspace=str(folder), tools={"access": "readonly"}, context={}),
        script({"when": SEES, "text": "It rises."}, calls(call("fs.read", path="chart.png"))),
    )
    assert (result.outcome, result.output) == ("accepted", "It rises.")
    [read] = await results(site, result)
    assert (read.outcome, [one.width for one in read.attachments]) == ("ok", [40])


async def test_a_model_that_sees_nothing_is_refused_before_anything_starts(
    site: Installation,
) -> None:
    with pytest.raises(InvalidInput, match=r"models\.executor: .* cannot be shown images, but"):
        await _run(site, task(), script({"text": "A guess."}, attachments=[]))


async def test_a_judge_that_sees_nothing_reads_what_is_there(site: Installation) -> None:
    blind = await site.script(
        script({"when": {"contains": "cannot be shown images"}, "json": verdict(1)}, attachments=[])
    )
    result = await _run(
        site,
        {**refinement((TONE,)), "models": {"evaluator": blind}},
        script({"when": SEES, "text": "It rises."}),
    )
    assert (result.outcome, result.output) == ("accepted", "It rises.")
    noticed = [event async for event in site.gateway.events(result.id)]
    (unseen,) = [event.data for event in noticed if event.type == "input_unseen"]
    assert unseen["role"] == "evaluator"
    assert f"{blind} cannot be shown images: of [image chart.png" in str(unseen["why"])


async def test_the_status_says_which_model_sees_nothing(site: Installation) -> None:
    blind = await site.script(script({"json": verdict(0)}, attachments=[]))
    played = script({"text": "It rises."})
    task: dict[str, Any] = {
        **refinement((TONE, LIKED)),
        "models": {"evaluator": blind, "executor": await site.script(played)},
        "context": {"chart": CHART},
    }
    ready = await store(
        load_data(task, surroundings=Surroundings(folder=None)), site.parts.stores.blobs
    )
    run = await site.gateway.start(ready)
    await open_gate(site, run)
    status = await site.gateway.status(run)
    (told,) = status.unseen
    assert told.startswith(f"evaluator: {blind} cannot be shown images")
    assert "cannot be shown images" in plain(status_view(status))
    await site.gateway.verb(run, Stop())
    await site.gateway.result(run)


async def test_any_client_sends_the_content_along(site: Installation) -> None:
    plain = await Client.connect(site.address)
    model = await site.script(script({"when": SEES, "text": "It rises."}))
    given: dict[str, object] = {"goal": "Read it.", "models": {"executor": model}}
    run = await plain.start_workflow(
        "AgentLoop",
        {**given, "context": {"chart": CHART}},
        id="plain-picture",
        task_queue=site.settings.task_queue,
    )
    answer = await run.result()
    assert isinstance(answer, dict)
    assert answer["output"] == "It rises."


async def test_a_paper_that_cannot_be_read_fails_the_run_in_words(site: Installation) -> None:
    shut = {"base64": base64.b64encode(pdf(password="x")).decode(), "name": "shut.pdf"}
    result = await _run(site, task(context={"paper": shut}), script({"text": "A guess."}))
    assert result.outcome == "failed"
    assert "shut.pdf: it cannot be read as a PDF: it is encrypted; save it" in result.explanation
    assert result.spend.model_calls == 0
