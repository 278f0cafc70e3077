"""The OpenAI Agents SDK with `temporalio-openai-agents`: its runner in a workflow."""

from collections.abc import AsyncIterator
from datetime import timedelta

from agents import Agent, Model, ModelProvider, ModelResponse, Runner, Usage
from agents.items import TResponseInputItem, TResponseStreamEvent
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from temporalio import activity, workflow
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import activity_as_tool
from typing_extensions import override

from benchmarks.peers.conversation import (
    MOST_TURNS,
    QUEUE,
    TIMEOUT,
    WORKFLOW,
    PeerOrder,
    beside,
    keep_books,
)
from benchmarks.scene import ANSWER, INSTRUCTIONS, asks_for_tool, book, page
from benchmarks.serving import Limits, Served, serve


@activity.defn
async def read_page(turn: int) -> str:
    """Read a page of the report."""
    await book(activity.info().workflow_id or "", "tool", turn)
    return page(turn)


class ScriptedModel(Model):
    """Answers at once; its name says how often it asks for the tool."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    @override
    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        *args: object,
        **kwargs: object,
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        turn = 1 + sum(item.get("type") == "function_call_output" for item in items)
        await book(activity.info().workflow_id or "", "model", turn)
        if asks_for_tool(turn, turns=self.turns):
            # Two calls with one id count as one for the runner, so each has its own.
            said = ResponseFunctionToolCall(
                type="function_call",
                id=f"item-{turn}",
                call_id=f"call-{turn}",
                name=read_page.__name__,
                arguments=f'{{"turn": {turn}}}',
            )
        else:
            text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
            said = ResponseOutputMessage(
                type="message", id="answer", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    @override
    def stream_response(
        self, *args: object, **kwargs: object
    ) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


class ScriptedModels(ModelProvider):
    """The model named after its turns."""

    @override
    def get_model(self, model_name: str | None) -> Model:
        return ScriptedModel(int(model_name or 0))


@workflow.defn(name=WORKFLOW)
class OpenAIAgentsLoop:
    """One conversation."""

    @workflow.run
    async def run(self, order: PeerOrder) -> str:
        """Turn until the model answers."""
        await beside(order)
        agent = Agent(
            name="reader",
            instructions=INSTRUCTIONS,
            model=str(order.turns),
            tools=[activity_as_tool(read_page, start_to_close_timeout=TIMEOUT)],
        )
        result = await Runner.run(agent, input="Begin.", max_turns=MOST_TURNS)
        return str(result.final_output)


def main() -> None:
    """Serve the peer's queue."""
    limits = Limits.given()
    parameters = ModelActivityParameters(
        start_to_close_timeout=TIMEOUT, heartbeat_timeout=timedelta(seconds=limits.heartbeat_s)
    )
    serve(
        Served(QUEUE.format(name="openai_agents"), [OpenAIAgentsLoop], [read_page, keep_books]),
        plugins=[OpenAIAgentsPlugin(model_params=parameters, model_provider=ScriptedModels())],
    )
