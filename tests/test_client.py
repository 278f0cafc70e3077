import asyncio
import copy
import os
import pickle
import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recording_gateway import NOW, Blobs, Recorder, Texts

from perdure import AgentSpec, Client, RefineSpec
from perdure import client as client_module
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.progress import Standing
from perdure.domain.run.gates import Gate
from perdure.domain.run.result import RunResult
from perdure.gateway.types import RunFilter
from perdure.interfaces import live_text
from perdure.interfaces.opening import Opening
from perdure.submission.types import Flags, Surroundings


@pytest.fixture
def gateway() -> Recorder:
    return Recorder()


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


@pytest.fixture
async def client(gateway: Recorder, blobs: Blobs, tmp_path: Path) -> Client:
    return Client(
        gateway=gateway,  # pyright: ignore[reportArgumentType]  (the part that is used)
        blobs=blobs,  # pyright: ignore[reportArgumentType]  (the part that is used)
        live=Texts(),
        experiments=None,  # pyright: ignore[reportArgumentType]  (not used here)
        surroundings=Surroundings(folder=tmp_path, default_model="claude-x"),
        by="test",
        opening=Opening(),
        resources=AsyncExitStack(),
    )


async def test_a_goal_is_run_to_its_result(client: Client, gateway: Recorder) -> None:
    result = await client.run("Write a haiku.")
    (spec, run_id, key), *more = gateway.started

    assert (result.outcome, more) == ("accepted", [])
    assert isinstance(spec, AgentSpec)
    assert (spec.goal, run_id, key) == ("Write a haiku.", None, None)


async def test_fields_flags_and_models_are_tasks_too(
    client: Client, gateway: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text("kind: agent\ngoal: from a file")
    given = AgentSpec(kind="agent", goal="a model")
    await client.start("task.yaml", run_id="mine", idempotency_key="k")
    await client.start({"kind": "agent", "goal": "fields"})
    await client.start(given)
    await client.start("at most 9 words", flags=Flags(iterate=2))

    assert [spec.goal for spec, _, _ in gateway.started] == [
        "from a file",
        "fields",
        "a model",
        "at most 9 words",
    ]
    assert gateway.started[0][1:] == ("mine", "k")
    assert isinstance(gateway.started[-1][0], RefineSpec)


async def test_flags_win_over_a_specification_too(
    client: Client, gateway: Recorder, blobs: Blobs, tmp_path: Path
) -> None:
    (tmp_path / "script.yaml").write_text("replies: [{text: hi}]")
    given = AgentSpec(kind="agent", goal="a model")
    flags = Flags(budget={"cost_usd": "0.05"}, model="scripted:script.yaml")
    await client.start(given, flags=flags)
    with pytest.raises(InvalidInput, match="cost_usd"):
        await client.start(given, flags=Flags(budget={"cost_usd": "much"}))

    ((spec, _, _),) = gateway.started
    assert (spec.goal, str(spec.budget.cost_usd)) == ("a model", "0.05")
    assert spec.models.executor == "scripted:hmac:0#script"
    assert blobs.kept == {"hmac:0": b"replies: [{text: hi}]"}


@pytest.mark.parametrize("flags", [None, Flags(model="scripted:s.yaml")])
async def test_a_specification_names_files_as_its_fields_do(
    client: Client, gateway: Recorder, blobs: Blobs, tmp_path: Path, flags: Flags | None
) -> None:
    (tmp_path / "n.md").write_text("A note.")
    (tmp_path / "long.md").write_text("x" * 20_000)
    (tmp_path / "s.yaml").write_text("replies: [{text: hi}]")
    fields = {
        "kind": "agent", "goal": "x", "workspace": ".",
        "models": {"executor": "scripted:s.yaml"},
        "context": {"notes": {"file": "n.md"}, "more": "file: long.md"},
    }  # fmt: skip
    for task in (fields, AgentSpec.model_validate(fields)):
        blobs.kept.clear()
        await client.start(task, flags=flags)
        assert sorted(map(len, blobs.kept.values())) == [21, 20_000]
    one, other = (spec for spec, *_ in gateway.started)
    assert one == other
    assert one.context["notes"] == "A note."
    with pytest.raises(InvalidInput, match=r"context\.notes: found \"no\.md\""):
        await client.start(AgentSpec(kind="agent", goal="x", context={"notes": {"file": "no.md"}}))


async def test_a_wrong_task_is_refused_before_anything_starts(
    client: Client, gateway: Recorder
) -> None:
    with pytest.raises(InvalidInput, match="Did you mean goal"):
        await client.start({"kind": "agent", "gaol": "x"})
    assert gateway.started == []


async def test_files_of_a_task_are_stored_first(
    client: Client, gateway: Recorder, blobs: Blobs, tmp_path: Path
) -> None:
    (tmp_path / "script.yaml").write_text("replies: [{text: hi}]")
    await client.start("Write.", flags=Flags(model="scripted:script.yaml"))

    assert blobs.kept == {"hmac:0": b"replies: [{text: hi}]"}
    assert gateway.started[0][0].models.executor == "scripted:hmac:0#script"


async def test_a_handle_sends_every_verb_signed_and_once(client: Client, gateway: Recorder) -> None:
    run = await client.attach("@last")
    gate = Gate(
        id="g2", kind="tool_approval", prompt="?", choices=("approve",), opened_at=NOW,
        args_hash="abc",
    )  # fmt: skip
    await run.pause()
    await run.resume()
    await run.escalate("look")
    await run.amend(budget={"cost_usd": 3}, guidance="shorter")
    await run.add_input("more")
    await run.answer("g1", "yes")
    await run.answer(gate, "approve")
    await run.stop(mode="now")
    messages = [message for _, message in gateway.sent]
    facts = [message.model_dump(exclude_defaults=True) for message in messages]

    assert [type(message).__name__ for message in messages] == [
        "Pause", "Resume", "Escalate", "Amend", "AddInput", "Answer", "Answer", "Stop",
    ]  # fmt: skip
    assert {message.by for message in messages} == {"test"}
    assert len({message.request_id for message in messages}) == len(messages)
    assert "args_hash" not in facts[5]
    assert (facts[6]["gate"], facts[6]["args_hash"]) == ("g2", "abc")
    assert facts[7]["mode"] == "now"
    assert [event.type async for event in run.events()] == ["ended"]


async def test_an_unknown_run_cannot_be_attached(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.attach("nothing")


async def test_connect_composes_by_name_and_closes(
    gateway: Recorder,
    blobs: Blobs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def services(settings: object, **options: Any) -> AsyncGenerator[SimpleNamespace]:
        seen.extend((settings, options["start"]))
        options["on_progress"]("starting the services")
        options["on_progress"](Standing("`perdure down` applies PERDURE_PLUGINS"))
        yield SimpleNamespace(
            gateway=gateway, blobs=blobs, live=Texts, endpoints=SimpleNamespace(home=str(tmp_path))
        )
        seen.append("closed")

    composition = SimpleNamespace(
        Settings=SimpleNamespace(load=lambda **given: given),
        SETTING_NAMES=frozenset({"home"}),
        access_from=lambda settings: settings,
        default_model=lambda access: "local",
        services=services,
        working_folder=Path.cwd,
    )
    monkeypatch.setattr(
        client_module.importlib,
        "import_module",
        {"perdure.composition.client_services": composition}.__getitem__,
    )
    async with await Client.connect(start=False, home="/h") as client:
        assert client.surroundings.user_defaults == tmp_path / "perdure.yaml"
        assert client.surroundings.default_model == "local"
        run = await client.start("Say it.")
        assert repr(client) == f"Client(by='python', folder='{Path.cwd()}')"
    assert seen == [{"home": "/h"}, False, "closed"]
    assert "`perdure down` applies PERDURE_PLUGINS" in caplog.text
    assert "starting" not in caplog.text
    for use in (
        lambda: client.start("Say it."),
        lambda: client.attach("@last"),
        lambda: run.status(),
        lambda: run.pause(),
        lambda: anext(run.events()),
        lambda: anext(run.stream()),
        lambda: client.experiments.attach("@last"),
    ):
        with pytest.raises(NotAllowed, match="This client is closed"):
            await use()
    await client.close()


class Unknown:
    """A type that nothing here expects."""

    def __repr__(self) -> str:
        return "<an unknown thing>"


WRONG = (None, 3, 1.5, b"x", ["a"], Unknown())


@pytest.mark.parametrize("found", WRONG)
@pytest.mark.parametrize(
    "call",
    [
        lambda client, run, found: client.start(found),
        lambda client, run, found: client.attach(found),
        lambda client, run, found: client.fork(found, from_iteration=1),
        lambda client, run, found: run.answer(found),
        lambda client, run, found: run.add_input(found),
        lambda client, run, found: run.retry(found),
        lambda client, run, found: run.stop(mode=found),
    ],
)
async def test_a_wrong_type_is_refused_in_words(client: Client, call: Any, found: object) -> None:
    run = await client.attach("@last")
    with pytest.raises(InvalidInput, match=r"found .*; allowed: "):
        await call(client, run, found)


@pytest.mark.parametrize("found", [found for found in WRONG if found is not None])
@pytest.mark.parametrize(
    "call",
    [
        lambda client, run, found: client.start("x", run_id=found),
        lambda client, run, found: client.start("x", idempotency_key=found),
        lambda client, run, found: client.start("x", flags=found),
        lambda client, run, found: client.fork("@last", from_iteration=1, goal=found),
        lambda client, run, found: client.fork("@last", from_iteration=1, label=found),
        lambda client, run, found: run.amend(budget=found),
        lambda client, run, found: run.amend(guidance=found),
    ],
)
async def test_a_wrong_type_of_what_may_be_left_out(
    client: Client, call: Any, found: object
) -> None:
    run = await client.attach("@last")
    with pytest.raises(InvalidInput, match=r"found .*; allowed: "):
        await call(client, run, found)


@pytest.mark.parametrize("found", [None, "1", 0, -1, 1.5, True])
async def test_a_fork_needs_a_number(client: Client, found: Any) -> None:
    with pytest.raises(InvalidInput, match=r"from_iteration: found .* whole number of at least 1"):
        await client.fork("@last", from_iteration=found)


@pytest.mark.parametrize("found", [-1, "a", None, 1.5])
async def test_events_begin_after_a_number(client: Client, found: Any) -> None:
    run = await client.attach("@last")
    with pytest.raises(InvalidInput, match="since: found"):
        run.events(since=found)


async def test_runs_are_listed_by_what_they_have(client: Client, gateway: Recorder) -> None:
    page = await client.runs(label="nightly", outcome="accepted", limit=3)
    assert [row.id for row in page.runs] == ["agent-1"]
    assert gateway.wanted == [RunFilter(label="nightly", outcome="accepted", limit=3)]
    with pytest.raises(InvalidInput, match=r'outcome: found "acepted"; .* Did you mean accepted'):
        await client.runs(outcome="acepted")
    with pytest.raises(InvalidInput, match="limit: found 0"):
        await client.runs(limit=0)


async def test_an_interrupted_wait_says_how_to_find_the_run(
    client: Client, gateway: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(run: str, *, wait: bool = True) -> RunResult:
        await asyncio.sleep(3600)
        raise AssertionError

    monkeypatch.setattr(gateway, "result", interrupted)
    waiting = asyncio.create_task(client.run("Say it."))
    while not gateway.started:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError) as ended:
        await waiting
    assert "client.attach('agent-1') finds it" in ended.value.__notes__[0]


async def test_a_path_is_a_file_and_no_goal(
    client: Client, gateway: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text("{kind: agent, goal: From the file.}", encoding="utf-8")
    with pytest.raises(NotFound, match=r"There is no task file .*missing"):
        await client.start(Path("missing"))
    await client.start(Path("task.yaml"))
    assert [spec.goal for spec, *_ in gateway.started] == ["From the file."]


@pytest.mark.parametrize("form", [Path, str])
async def test_what_comes_through_a_pipe_is_one_task(
    client: Client, gateway: Recorder, tmp_path: Path, form: Any
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for goal in ("First.", "Second."):
        fields = f"{{kind: agent, goal: {goal}}}"
        threading.Thread(target=pipe.write_text, args=(fields,), daemon=True).start()
        await client.start(form(pipe))
    assert [spec.goal for spec, *_ in gateway.started] == ["First.", "Second."]


async def test_values_of_python_programs_are_data(client: Client, gateway: Recorder) -> None:
    task = {"kind": "agent", "goal": "x", "context": {"day": date(2026, 1, 31), "n": (1, 2)}}
    await client.start(task)
    assert gateway.started[0][0].context == {"day": "2026-01-31", "n": [1, 2]}


@pytest.mark.parametrize("found", [float("nan"), "\ud800"])
async def test_what_json_cannot_say_is_refused_in_every_form(client: Client, found: str) -> None:
    fields = {"kind": "agent", "goal": "x", "context": {"n": [found]}}
    for task in (fields, AgentSpec.model_validate(fields)):
        with pytest.raises(InvalidInput, match=r"context\.n\[0\]: found"):
            await client.start(task)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_what_holds_connections_is_not_copied(client: Client, copied: Any) -> None:
    for held in (client, await client.attach("@last")):
        with pytest.raises(TypeError, match="Hand over the id of the run"):
            copied(held)


async def test_a_current_folder_that_is_gone_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidInput, match="The current folder cannot be used"):
        await Client.connect()


def test_the_composition_root_has_what_the_client_asks_for() -> None:
    compose = pytest.importorskip("perdure.composition.client_services")
    for name in ("Settings", "SETTING_NAMES", "services", "access_from", "default_model"):
        assert hasattr(compose, name), name


async def test_a_fork_is_told_what_changes_and_a_failed_run_goes_on(
    client: Client, gateway: Recorder
) -> None:
    fork = await client.fork("@last", from_iteration=2, goal="say more", run_id="agent-2")
    assert (fork.id, gateway.forked) == ("agent-2", [("agent-1", 2)])
    assert gateway.started[0][0].goal == "say more"
    assert (await fork.retry("again")).verb == "retry"
    assert gateway.sent[0][1].request_id


async def test_a_handle_streams_what_models_say(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_text, "LAST_LOOK_AFTER_S", 0)
    run = await client.attach("@last")
    parts = [(part.type, part.run, part.text) async for part in run.stream()]
    assert parts == [("call_started", "agent-1", ""), ("text", "agent-1", "so far")]
