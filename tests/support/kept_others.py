"""Recorded workflows that are no loops: an experiment, and one of somebody else's with loops."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from agent_runs import call, calls
from installation import Installation
from refining import draft
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Worker
from waiting import eventually

from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import LoopFailed, OpenGate, agent, refine

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}


async def experiment(site: Installation, name: str) -> WorkflowHistory:
    """Two arms over two inputs."""
    model = await site.script({"replies": [{"text": draft(0.5), "times": 100}]})
    task = {
        "kind": "refine", "goal": "Write.", "context": {"about": None}, "rubric": [SHORT],
        "models": {"executor": model}, "recall": False, "learn": False,
        "refine": {"plan": "off", "max_iterations": 2}, "budget": {"tokens": 20_000},
    }  # fmt: skip
    data: Any = {
        "task": task, "inputs": [{"about": "oaks"}, {"about": "elms"}],
        "arms": {"single": {"refine.max_iterations": 1}}, "parallel": 1,
    }  # fmt: skip
    made = experiment_of(data, surroundings=Surroundings(folder=None))
    experiments = site.gateway.experiments(site.parts.stores.experiments())
    await experiments.start(made.plan, made.entries, id=name)

    async def ended() -> bool:
        return not (await experiments.status(name)).open

    await eventually(ended)
    return await site.client.get_workflow_handle(name).fetch_history()


@activity.defn
async def decide(gate: str) -> str:
    """An activity of theirs."""
    return "approve" if gate.startswith("g1-") else "deny"


@workflow.defn
class TheirWorkflow:
    """Awaits a loop, another one whose gate it answers, and a third one that fails."""

    @workflow.run
    async def run(self, models: dict[str, str]) -> list[str]:
        me = workflow.info().workflow_id
        mail = await refine(
            "Be short.", id=f"{me}-mail", rubric=[SHORT], recall=False, learn=False,
            models={"executor": models["mail"]}, refine={"plan": "off"},
        )  # fmt: skip
        settled = await agent(
            "Settle it.", id=f"{me}-settle", on_gate=self.on_gate, recall=False, learn=False,
            models={"executor": models["settle"]},
            tools={"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
        )  # fmt: skip
        try:
            await agent("Fail.", id=f"{me}-fail", models={"executor": models["fail"]}, recall=False)
        except LoopFailed as failed:
            return [str(mail.output), str(settled.output), failed.result.reason]
        return []

    async def on_gate(self, gate: OpenGate) -> str:
        """Wait a moment, then let an activity decide."""
        await asyncio.sleep(0.1)
        return await workflow.execute_activity(
            decide, gate.gate, start_to_close_timeout=timedelta(seconds=30)
        )


async def theirs(site: Installation, name: str) -> WorkflowHistory:
    """A workflow of somebody else's in their own worker."""
    plugin = PerdurePlugin(site.settings)
    client = await Client.connect(site.address, plugins=[plugin])
    write = calls(call("fs.write", path="a.txt", text="a"))
    models = {
        "mail": await site.script(
            {"replies": [{"text": "one two three four five"}, {"text": "Hi."}]}
        ),
        "settle": await site.script({"replies": [write, {"text": "Settled."}]}),
        "fail": await site.script({"replies": [{"error": "authentication"}]}),
    }
    async with Worker(client, task_queue="theirs", workflows=[TheirWorkflow], activities=[decide]):
        handle = await client.start_workflow(
            TheirWorkflow.run, models, id=name, task_queue="theirs"
        )
        result = await handle.result()
        assert result == ["Hi.", "Settled.", "model_error"], result
        return await handle.fetch_history()


Other = Callable[[Installation, str], Awaitable[WorkflowHistory]]
EXPERIMENTS: Mapping[str, Other] = {"experiment": experiment}
THEIRS: Mapping[str, Other] = {"their_workflow": theirs}
