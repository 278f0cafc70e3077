"""The step `call_tool`: a second try does nothing twice, and only what was decided on runs."""

import shutil
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.support.run_storage import Frames
from perdure.activities.tool_calls import AskedCalls, CallTool
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.tools.builtin import kept_tools
from perdure.adapters.tools.host import LocalToolHost
from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.domain.foundation.errors import StoreError
from perdure.domain.llm.transcript import Message, ToolUseBlock, user_message
from perdure.domain.projects.records import Reach
from perdure.domain.run.activity_messages import Frame, ToolCallReport, ToolCallRequest
from perdure.domain.tools.definitions import ToolGrant, arguments_hash
from perdure.extending.tool_decorator import ToolContext, tool

REACH = Reach(run="roles-1", project="project-1")
TODO = ToolUseBlock(type="tool_use", id="call-1", name="todo.add", arguments={"items": ["a", "b"]})
ARTIFACT = ToolUseBlock(
    type="tool_use", id="call-2", name="artifact.write", arguments={"name": "n", "content": "x"}
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


async def _request(
    stores: Stores,
    use: ToolUseBlock,
    *,
    stage: str,
    iteration: int = 1,
    grant: ToolGrant | None = None,
) -> ToolCallRequest:
    """A call of a stage whose conversation names it."""
    head = await stores.transcripts.append(
        None, [user_message(f"You are {stage}."), Message(role="assistant", blocks=(use,))]
    )
    grant = grant or ToolGrant(root="/", level="readonly", allowed=(use.name,), project="project-1")
    frame = Frame(
        run="roles-1",
        root="roles-1",
        kind="roles",
        goal="g",
        system="",
        tools=(),
        grant=grant,
        cards={},
        chains={},
    )
    return ToolCallRequest(
        frame=await stores.blobs.put(frame.model_dump_json().encode()),
        head=head.hash,
        call_id=use.id,
        name=use.name,
        iteration=iteration,
        args_hash=arguments_hash(use.name, use.arguments),
        stage=stage,
    )


async def _call(
    stores: Stores, step: ToolCallRequest, environment: ActivityEnvironment | None = None
) -> ToolCallReport:
    """One attempt, by a worker that has just been started."""
    workspaces = LocalWorkspaces(Path("/nowhere"), stores.blobs)
    activity = CallTool(
        blobs=stores.blobs,
        calls=AskedCalls(
            transcripts=stores.transcripts, frames=Frames(stores.blobs), workspaces=workspaces
        ),
        host=LocalToolHost(kept_tools(stores)),
        workspaces=workspaces,
    )
    report = await (environment or ActivityEnvironment()).run(activity.call_tool, step)
    assert report.outcome == "ok"
    return report


async def test_a_second_try_of_a_call_writes_nothing_twice(stores: Stores) -> None:
    for use in (TODO, ARTIFACT):
        step = await _request(stores, use, stage="coder")
        assert (await _call(stores, step)).ref == (await _call(stores, step)).ref
    todos = await stores.todos.todos(reach=REACH)
    assert [(item.text, item.by) for item in todos] == [("a", "coder"), ("b", "coder")]
    assert len(await stores.artifacts.artifacts_of_run("roles-1")) == 1


async def test_a_host_reads_the_end_of_a_long_conversation(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has just been started has nothing of it in memory."""
    step = await _request(stores, TODO, stage="coder")
    head = None
    for number in range(50):
        head = await stores.transcripts.append(head, [user_message(f"{number}")])
    used = Message(role="assistant", blocks=(TODO,))
    head = await stores.transcripts.append(head, [used])
    fresh = await open_stores(tmp_path / "home")
    read: list[str] = []
    found = fresh.blobs.get

    async def get(address: str) -> bytes:
        read.append(address)
        return await found(address)

    monkeypatch.setattr(fresh.blobs, "get", get)
    await _call(fresh, step.model_copy(update={"head": head.hash}))
    await fresh.close()
    assert sorted(read) == sorted([step.frame, head.hash])


@pytest.mark.parametrize(
    ("stage", "iteration"), [("reviewer", 1), ("coder", 2)], ids=["stage", "iteration"]
)
async def test_another_call_under_the_same_id_writes_its_own(
    stores: Stores, stage: str, iteration: int
) -> None:
    """Models may number their calls alike; a call of another stage or iteration is another."""
    await _call(stores, await _request(stores, TODO, stage="coder"))
    await _call(stores, await _request(stores, TODO, stage=stage, iteration=iteration))
    assert len(await stores.todos.todos(reach=REACH)) == 4


async def test_a_key_is_that_of_one_call_in_all_its_attempts(
    stores: Stores, tmp_path: Path
) -> None:
    """Each stage of an iteration is a conversation of its own, whose model numbers its calls."""
    keys: list[str] = []

    @tool(access="network", name="own.order", idempotent=True)
    async def order(context: ToolContext) -> str:
        """Order something at a service that knows such keys."""
        keys.append(context.idempotency_key)
        return "ordered"

    workspaces = LocalWorkspaces(tmp_path / "work", stores.blobs)
    activity = CallTool(
        blobs=stores.blobs,
        calls=AskedCalls(
            transcripts=stores.transcripts, frames=Frames(stores.blobs), workspaces=workspaces
        ),
        host=LocalToolHost((order,)),
        workspaces=workspaces,
    )
    use = ToolUseBlock(type="tool_use", id="call-1", name="own.order", arguments={})
    grant = ToolGrant(root="/", level="full", allowed=("own.order",))
    for stage in ("coder", "reviewer", ""):
        step = await _request(stores, use, stage=stage, grant=grant)
        for _ in range(2):
            assert (await ActivityEnvironment().run(activity.call_tool, step)).outcome == "ok"
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 3
    assert keys[-1] == "roles-1/1/call-1"


@pytest.mark.parametrize(
    "arguments", [{"items": ["a", "c"]}, {"items": ["a", "b"], "more": 1}, {}], ids=str
)
async def test_a_call_that_is_not_the_one_decided_on_does_not_run(
    stores: Stores, arguments: dict[str, JsonValue]
) -> None:
    """R48: a person approved these arguments; what the transcript holds now is something else."""
    approved = await _request(stores, TODO, stage="coder")
    changed = TODO.model_copy(update={"arguments": arguments})
    now = await _request(stores, changed, stage="coder")
    with pytest.raises(ApplicationError, match="other arguments than those decided on"):
        await _call(stores, now.model_copy(update={"args_hash": approved.args_hash}))
    assert await stores.todos.todos(reach=REACH) == []


async def test_a_result_that_no_store_takes_leaves_its_effect_uncertain(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool has run: an error in its place would have the model do it again."""
    step = await _request(stores, TODO, stage="coder")

    async def refuses(_text: str) -> None:
        raise StoreError("the database is malformed")

    monkeypatch.setattr(stores.blobs, "put_text", refuses)
    with pytest.raises(ApplicationError, match=r"todo\.add ran") as refused:
        await _call(stores, step)
    assert refused.value.type == "effect_uncertain"
    assert len(await stores.todos.todos(reach=REACH)) == 2


@pytest.mark.parametrize(
    ("attempt", "beaten", "most", "runs"),
    [(1, [], 1, True), (2, [], 1, False), (1, [None, 1], 1, False), (2, [None, 1], 5, True)],
    ids=["the first", "after a pause", "after a pause and a reset", "of a tool that is repeated"],
)
async def test_a_call_that_may_run_once_does_not_begin_again(
    stores: Stores, attempt: int, beaten: list[object], most: int, runs: bool
) -> None:
    """The server hands a step that was paused out again, whatever its policy allows."""
    step = await _request(stores, TODO, stage="coder")
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info,
        attempt=attempt,
        heartbeat_details=beaten,
        retry_policy=RetryPolicy(maximum_attempts=most),
    )
    if runs:
        await _call(stores, step, environment)
    else:
        with pytest.raises(ApplicationError) as refused:
            await _call(stores, step, environment)
        assert (refused.value.type, refused.value.non_retryable) == ("effect_uncertain", True)
    assert bool(await stores.todos.todos(reach=REACH)) == runs


@pytest.mark.parametrize("fault", [None, "the folder is gone", "the disk fails", "the store"])
async def test_a_call_that_has_run_is_never_told_as_one_that_has_not(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    """Whatever keeps its files from being stored: the effect is there, and so is its result."""
    workspaces = LocalWorkspaces(tmp_path / "work", stores.blobs)
    root = await workspaces.prepare(run="roles-1", source=None, writable=True)
    ran: list[str] = []

    @tool(access="execute", name="own.act")
    async def act(context: ToolContext) -> str:
        """Do something that must not be done twice."""
        ran.append(context.grant.root)
        if fault == "the folder is gone":
            shutil.rmtree(context.grant.root)
        return "done"

    async def broken(**_: object) -> None:
        raise OSError(5, "I/O error") if fault == "the disk fails" else StoreError("it is full")

    if fault in {"the disk fails", "the store"}:
        monkeypatch.setattr(workspaces, "snapshot", broken)
    use = ToolUseBlock(type="tool_use", id="call-3", name="own.act", arguments={})
    grant = ToolGrant(root="/elsewhere", writable=True, level="full", allowed=("own.act",))
    asked = await _request(stores, use, stage="coder", grant=grant)
    step = asked.model_copy(update={"root": root, "takes_snapshot": True})
    activity = CallTool(
        blobs=stores.blobs,
        calls=AskedCalls(
            transcripts=stores.transcripts, frames=Frames(stores.blobs), workspaces=workspaces
        ),
        host=LocalToolHost((act,)),
        workspaces=workspaces,
    )
    report = await ActivityEnvironment().run(activity.call_tool, step)
    assert (report.outcome, report.told, ran) == ("ok", "done", [root])
    assert (report.tree is None) is (fault is not None)


async def test_a_call_whose_folder_is_not_there_has_not_begun(
    stores: Stores, tmp_path: Path
) -> None:
    step = await _request(stores, TODO, stage="coder")
    gone = step.model_copy(update={"root": str(tmp_path / "gone")})
    with pytest.raises(ApplicationError, match="is gone from this host") as caught:
        await _call(stores, gone)
    assert caught.value.type == "folder_gone"
    assert await stores.todos.todos(reach=REACH) == []
