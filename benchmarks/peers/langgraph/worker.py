"""LangGraph with `temporalio-langgraph`: a graph of two nodes, each an activity.

Messages are plain dicts: objects of LangChain reach the nodes of an activity as dicts as well.
"""

import operator
from datetime import timedelta
from typing import Annotated, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from temporalio import activity, workflow
from temporalio.langgraph import LangGraphPlugin, graph

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
from benchmarks.serving import Limits, Served, beating, serve

GRAPH = "pages"


class Message(TypedDict, total=False):
    """What was said; a reply without content calls the tool."""

    role: str
    content: str
    tool_turn: int


class Pages(TypedDict):
    """The conversation, and for how long the scripted model asks."""

    messages: Annotated[list[Message], operator.add]
    turns: int


async def model(state: Pages) -> dict[str, list[Message]]:
    """The scripted model."""
    turn = 1 + sum(message["role"] == "tool" for message in state["messages"])
    run = activity.info().workflow_id or ""
    # The plugin sends no heartbeats; a node that wants them sends its own.
    async with beating(activity.heartbeat, Limits.given().heartbeat_s):
        await book(run, "model", turn)
    if not asks_for_tool(turn, turns=state["turns"]):
        return {"messages": [{"role": "assistant", "content": ANSWER}]}
    return {"messages": [{"role": "assistant", "content": "", "tool_turn": turn}]}


async def tool(state: Pages) -> dict[str, list[Message]]:
    """The scripted tool."""
    turn = state["messages"][-1]["tool_turn"]
    await book(activity.info().workflow_id or "", "tool", turn)
    return {"messages": [{"role": "tool", "content": page(turn)}]}


async def follows(state: Pages) -> Literal["tool", "__end__"]:
    """The tool, as long as the model asks for it.

    It is a coroutine function, for a plain one would be run in a thread, which workflows have not.
    """
    return "tool" if "tool_turn" in state["messages"][-1] else END


def built(heartbeat_s: float) -> StateGraph[Pages]:
    """Model and tool in turn."""
    pages = StateGraph(Pages)
    options = {"execute_in": "activity", "start_to_close_timeout": TIMEOUT}
    pages.add_node(
        "model", model, metadata={**options, "heartbeat_timeout": timedelta(seconds=heartbeat_s)}
    )
    pages.add_node("tool", tool, metadata=options)
    pages.add_edge(START, "model")
    pages.add_conditional_edges("model", follows)
    pages.add_edge("tool", "model")
    return pages


@workflow.defn(name=WORKFLOW)
class LangGraphLoop:
    """One conversation."""

    @workflow.run
    async def run(self, order: PeerOrder) -> str:
        """Turn until the model answers."""
        await beside(order)
        said = (
            await graph(GRAPH)
            .compile()
            .ainvoke(
                {"messages": [{"role": "system", "content": INSTRUCTIONS}], "turns": order.turns},
                {"recursion_limit": MOST_TURNS},
            )
        )
        return said["messages"][-1]["content"]


def main() -> None:
    """Serve the peer's queue."""
    serve(
        Served(QUEUE.format(name="langgraph"), [LangGraphLoop], [keep_books]),
        plugins=[LangGraphPlugin(graphs={GRAPH: built(Limits.given().heartbeat_s)})],
    )
