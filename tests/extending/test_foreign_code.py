"""Foreign code that ends with something that is no error: it ends itself, and nothing of ours."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest
from pydantic import JsonValue
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from perdure import check, on_end, tool
from perdure.adapters.checks.rubric import RubricChecks
from perdure.adapters.hooks import ServedHooks
from perdure.adapters.plugins import plugin_tools
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.hooks import EndFacts, HookFailed, WantedHook
from perdure.extending.foreign_code import CodeEnded, as_own_task, contained
from perdure.testing import PerdureEnvironment, ScriptedModel


class Bare(BaseException):
    """Neither an error nor known to anybody."""


ENDINGS: dict[str, tuple[Callable[[], object], str]] = {
    "exit": (lambda: sys.exit(3), "it ended the process with sys.exit(3)"),
    "exit with words": (lambda: sys.exit("bad"), "it ended the process with sys.exit('bad')"),
    "exit without a code": (sys.exit, "it ended the process with sys.exit()"),
    "interrupt": (lambda: _raise(KeyboardInterrupt()), "it raised KeyboardInterrupt"),
    "closed": (lambda: _raise(GeneratorExit()), "it raised GeneratorExit"),
    "bare": (lambda: _raise(Bare("odd")), "it raised Bare: odd"),
    "stop": (lambda: _raise(StopIteration()), "it raised StopIteration"),
    "cancelled": (
        lambda: _raise(asyncio.CancelledError()),
        "it was cancelled, which nobody had asked for",
    ),
}
EVERY = pytest.mark.parametrize(("end", "said"), ENDINGS.values(), ids=ENDINGS)
FACTS = EndFacts(
    run="r", kind="agent", goal="g", inputs={}, outcome="met", reason="done", output=None,
    result={}, idempotency_key="k",
)  # fmt: skip


def _raise(error: BaseException) -> Never:
    raise error


@EVERY
async def test_in_a_task_it_ends_only_itself(end: Callable[[], object], said: str) -> None:
    async def foreign() -> object:
        return end()

    with pytest.raises((CodeEnded, RuntimeError)) as caught:
        await as_own_task(foreign)
    # Python itself makes an error of a StopIteration that leaves a coroutine.
    assert str(caught.value) in (said, "coroutine raised StopIteration")


@EVERY
def test_in_a_thread_it_ends_only_itself(end: Callable[[], object], said: str) -> None:
    found: list[BaseException] = []

    def body() -> None:
        try:
            with contained():
                end()
        except CodeEnded as ended:
            found.append(ended)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert [str(one) for one in found] == [said]


async def test_code_that_cancels_its_own_task_does_not_cancel_its_caller() -> None:
    async def foreign() -> None:
        mine = asyncio.current_task()
        assert mine is not None
        mine.cancel()
        await asyncio.sleep(0)

    with pytest.raises(CodeEnded, match="cancelled its own task"):
        await as_own_task(foreign)


async def test_a_cancellation_from_outside_goes_on_as_it_is() -> None:
    begun, ended = asyncio.Event(), list[str]()

    async def foreign() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("foreign")

    async def ours() -> None:
        with contained():
            await as_own_task(foreign)

    task = asyncio.create_task(ours())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["foreign"]


def test_ctrl_c_is_no_fault_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), contained():
        raise KeyboardInterrupt


@EVERY
async def test_a_check_that_ends_leaves_the_output_unscored(
    end: Callable[[], object], said: str
) -> None:
    found = check(name="acme.ends")(lambda output: end())
    rubric = Rubric.model_validate([{"name": "d", "evaluator": {"check": "acme.ends"}}])
    checks = RubricChecks(plugins={found.name: found})
    (score,) = await asyncio.to_thread(checks.evaluate, rubric, "text")
    assert score.score is None
    assert "the check acme.ends failed" in score.gap
    assert said in score.gap or "StopIteration" in score.gap


@pytest.mark.parametrize("kind", ["sync", "async"])
@EVERY
async def test_a_hook_that_ends_has_failed(end: Callable[[], object], said: str, kind: str) -> None:
    async def later(facts: EndFacts) -> object:
        return end()

    hook = on_end(name="acme.ends")(later if kind == "async" else lambda facts: end())
    hooks = ServedHooks({hook.name: hook})
    with pytest.raises(HookFailed) as caught:
        await hooks.run(WantedHook(kind="on_end", name=hook.name), FACTS)
    assert said in str(caught.value) or "StopIteration" in str(caught.value)
    assert "test_foreign_code.py, line" in str(caught.value) or "StopIteration" in said


@pytest.mark.parametrize("ending", ["sys.exit(2)", "raise GeneratorExit", "sys.exit()"])
def test_a_plugin_that_ends_while_it_loads_is_named(tmp_path: Path, ending: str) -> None:
    (tmp_path / "ends.py").write_text(f"import sys\n{ending}\n")
    with pytest.raises(InvalidInput) as caught:
        plugin_tools([str(tmp_path / "ends.py")])
    assert f"(ends.py, line 2: {ending})" in caught.value.message


@check(name="acme.exits")
def exits(output: str) -> bool:
    """End the process."""
    sys.exit(3)


@on_end(name="acme.exits_late")
async def exits_late(facts: EndFacts) -> None:
    """End the process, in the event loop."""
    sys.exit(5)


@tool(name="acme.exits_too")
async def exits_too() -> None:
    """End the process, in the event loop."""
    sys.exit(4)


@activity.defn
async def theirs() -> None:
    """What their worker is there for."""


async def test_the_worker_goes_on_after_a_check_a_hook_and_a_tool_that_exit() -> None:
    call: dict[str, JsonValue] = {"tool_calls": [{"name": "acme.exits_too", "arguments": {}}]}
    async with PerdureEnvironment.start(
        checks=[exits], hooks=[exits_late], tools=[exits_too]
    ) as environment:
        client = environment.client
        model = await environment.model(ScriptedModel("one", exhausted="repeat_last"))
        calling = await environment.model(ScriptedModel(call, "two"))
        common = {"goal": "Write.", "learn": False}
        refine = {
            **common, "models": {"executor": model}, "hooks": {"on_end": ["acme.exits_late"]},
            "rubric": [{"name": "r", "evaluator": {"check": "acme.exits"}}],
            "refine": {"plan": "off", "max_iterations": 1},
        }  # fmt: skip
        agent = {
            **common, "models": {"executor": calling},
            "tools": {"allow": ["acme.exits_too"]},
        }  # fmt: skip
        async with Worker(client, task_queue="theirs", activities=[theirs]):
            with pytest.raises(WorkflowFailureError) as refined:
                await client.execute_workflow(
                    "RefineLoop", refine, id="refined", task_queue="theirs"
                )
            after = await client.execute_workflow(
                "AgentLoop", agent, id="after", task_queue="theirs"
            )
    cause = refined.value.cause
    assert isinstance(cause, ApplicationError)
    assert "the check acme.exits failed: it ended the process with sys.exit(3)" in cause.message
    assert "it ended the process with sys.exit(5)" in str(cause.details[0]["hook_failures"])
    assert after["output"] == "two"
