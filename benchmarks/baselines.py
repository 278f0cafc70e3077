"""The hand-written loops that the product is measured against: as little as Temporal allows.

No budget, no status, no journal, no pause: a workflow that calls a model and a tool in turn. The
*delta* loop hands the model its instructions and the newest result, the *full* loop the whole
conversation, as most agent frameworks do.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import activity, workflow

from benchmarks.scene import ANSWER, INSTRUCTIONS, asks_for_tool, book, page
from benchmarks.serving import beating

TIMEOUT = timedelta(seconds=60)


@dataclass
class Order:
    """How many turns, how many steps beside them, and who works: None is the loop's own queue.

    With `heartbeat_s`, model calls send heartbeats, and one that is silent for so long is lost.
    """

    turns: int
    beside: int = 0
    models: str | None = None
    tools: str | None = None
    heartbeat_s: float | None = None


@dataclass
class Question:
    """What a model is asked; `turns` tells the scripted one when to answer."""

    turn: int
    turns: int
    instructions: str
    messages: list[str] = field(default_factory=list[str])


@dataclass
class Reply:
    """A tool call, or an answer."""

    tool_turn: int | None = None
    text: str = ""


@activity.defn
async def ask_model(question: Question) -> Reply:
    """The scripted model."""
    silence = activity.info().heartbeat_timeout
    async with beating(activity.heartbeat, None if silence is None else silence.total_seconds()):
        await book(activity.info().workflow_id or "", "model", question.turn)
    if asks_for_tool(question.turn, turns=question.turns):
        return Reply(tool_turn=question.turn)
    return Reply(text=ANSWER)


@activity.defn
async def read_page(turn: int) -> str:
    """The scripted tool."""
    await book(activity.info().workflow_id or "", "tool", turn)
    return page(turn)


@activity.defn
async def keep_books(step: int) -> int:
    """A step beside the turns: the product opens and closes a run with some."""
    return step


class _Steps:
    """The activities of one order."""

    def __init__(self, order: Order) -> None:
        self.order = order

    async def ask(self, turn: int, messages: list[str]) -> Reply:
        question = Question(turn, self.order.turns, INSTRUCTIONS, messages)
        silence = self.order.heartbeat_s
        return await workflow.execute_activity(
            ask_model,
            question,
            task_queue=self.order.models,
            start_to_close_timeout=TIMEOUT,
            heartbeat_timeout=None if silence is None else timedelta(seconds=silence),
        )

    async def read(self, turn: int) -> str:
        return await workflow.execute_activity(
            read_page, turn, task_queue=self.order.tools, start_to_close_timeout=TIMEOUT
        )

    async def beside(self) -> None:
        for step in range(self.order.beside):
            await workflow.execute_activity(keep_books, step, start_to_close_timeout=TIMEOUT)


@workflow.defn
class DeltaLoop:
    """Each question carries the newest result only."""

    @workflow.run
    async def run(self, order: Order) -> str:
        """Turn until the model answers."""
        steps, turn, newest = _Steps(order), 1, list[str]()
        await steps.beside()
        while (reply := await steps.ask(turn, newest)).tool_turn is not None:
            newest = [await steps.read(reply.tool_turn)]
            turn += 1
        return reply.text


@workflow.defn
class FullLoop:
    """Each question carries everything that was said."""

    @workflow.run
    async def run(self, order: Order) -> str:
        """Turn until the model answers."""
        steps, turn, messages = _Steps(order), 1, list[str]()
        await steps.beside()
        while (reply := await steps.ask(turn, messages)).tool_turn is not None:
            messages = [*messages, await steps.read(reply.tool_turn)]
            turn += 1
        return reply.text


@workflow.defn
class PausableLoop:
    """The delta loop with the two signals that people need most."""

    def __init__(self) -> None:
        self.paused = False

    @workflow.signal
    def pause(self) -> None:
        """Start no new step."""
        self.paused = True

    @workflow.signal
    def resume(self) -> None:
        """Go on."""
        self.paused = False

    @workflow.run
    async def run(self, order: Order) -> str:
        """Turn until the model answers."""
        steps, turn, newest = _Steps(order), 1, list[str]()
        while (reply := await steps.ask(turn, newest)).tool_turn is not None:
            await workflow.wait_condition(lambda: not self.paused)
            newest = [await steps.read(reply.tool_turn)]
            await workflow.wait_condition(lambda: not self.paused)
            turn += 1
        return reply.text


WORKFLOWS = (DeltaLoop, FullLoop, PausableLoop)
ACTIVITIES = (ask_model, read_page, keep_books)
