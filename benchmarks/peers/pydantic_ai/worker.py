"""pydantic-ai with `TemporalDurability`: an agent whose model and tools are activities."""

from datetime import timedelta

from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, TemporalDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio import activity, workflow

from benchmarks.peers.conversation import QUEUE, TIMEOUT, WORKFLOW, PeerOrder, beside, keep_books
from benchmarks.scene import ANSWER, INSTRUCTIONS, asks_for_tool, book, page
from benchmarks.serving import Limits, Served, serve


async def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The scripted model; the prompt says how often it asks for the tool."""
    read = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    turns, turn = int(messages[0].parts[-1].content), 1 + read
    await book(activity.info().workflow_id or "", "model", turn)
    if not asks_for_tool(turn, turns=turns):
        return ModelResponse(parts=[TextPart(ANSWER)])
    call = ToolCallPart("read_page", {"turn": turn}, tool_call_id=f"call-{turn}")
    return ModelResponse(parts=[call])


def built(heartbeat_s: float) -> Agent[None, str]:
    """The agent with its one tool."""
    durability = TemporalDurability(
        activity_config={"start_to_close_timeout": TIMEOUT},
        model_activity_config={"heartbeat_timeout": timedelta(seconds=heartbeat_s)},
    )
    made = Agent(
        FunctionModel(scripted, model_name="scripted"),
        name="reader",
        instructions=INSTRUCTIONS,
        capabilities=[durability],
    )

    @made.tool
    async def read_page(context: RunContext[None], turn: int) -> str:
        """Read a page of the report."""
        await book(activity.info().workflow_id or "", "tool", turn)
        return page(turn)

    return made


AGENT = built(Limits.given().heartbeat_s)


@workflow.defn(name=WORKFLOW)
class PydanticAILoop:
    """One conversation."""

    __pydantic_ai_agents__ = (AGENT,)

    @workflow.run
    async def run(self, order: PeerOrder) -> str:
        """Turn until the model answers."""
        await beside(order)
        result = await AGENT.run(str(order.turns), usage_limits=UsageLimits(request_limit=None))
        return result.output


def main() -> None:
    """Serve the peer's queue."""
    serve(
        Served(QUEUE.format(name="pydantic_ai"), [PydanticAILoop], [keep_books]),
        plugins=[PydanticAIPlugin()],
    )
