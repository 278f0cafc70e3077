"""The scene as plugins of the product: a model `bench:TURNS`, and the tool that it calls.

The worker loads them like any other plugin, the model by entry point and the tool by the setting
`plugins`; nothing of the product is replaced.
"""

import asyncio
from collections.abc import Callable
from decimal import Decimal

from benchmarks.scene import ANSWER, TOOL, asks_for_tool, book, page
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest, Price
from perdure.domain.llm.transcript import Message, TextBlock, ToolUseBlock
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import UsageSoFar, ignore_usage
from perdure.extending.tool_decorator import ToolContext, tool

NAME = "bench"
ENTRY_POINT = f"{NAME} = benchmarks.plugin:BenchModel"
PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
WINDOW = 1_000_000_000
STATED_USAGE = Usage(input_tokens=400, output_tokens=40)


def model_name(turns: int, *, seconds: float = 0.0) -> str:
    """The model that asks for a tool `turns` times and then answers, in so many seconds a call."""
    return f"{NAME}:{turns}@{seconds}" if seconds else f"{NAME}:{turns}"


class BenchModel:
    """A `ModelClient` that answers at once, or in the time that its name says."""

    async def card(self, model: str) -> ModelProfile:
        """Priced, so that the run keeps its books, with a window that never fills."""
        return ModelProfile(name=model, price=PRICE, window=WINDOW)

    async def count(self, request: ModelRequest) -> int | None:
        """None: the loop estimates, as it does for providers that cannot count for free."""
        return None

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Ask for the next page, or answer."""
        turns, _, seconds = request.model.partition(":")[2].partition("@")
        turn = 1 + sum(1 for message in request.messages if message.tool_uses)
        await book(request.context.run, "model", turn)
        if seconds:
            await asyncio.sleep(float(seconds))
        asking = asks_for_tool(turn, turns=int(turns))
        block = (
            ToolUseBlock(type="tool_use", id=f"toolu_{turn}", name=TOOL, arguments={"turn": turn})
            if asking
            else TextBlock(type="text", text=ANSWER)
        )
        return ModelReply(
            message=Message(role="assistant", blocks=(block,)),
            stop_reason="tool_use" if asking else "end_turn",
            usage=STATED_USAGE,
            model=request.model,
        )


@tool(access="read", name=TOOL, idempotent=True)
async def read(context: ToolContext, turn: int) -> str:
    """Read a page of the report.

    Args:
        turn: the number of the page.
    """
    await book(context.run, "tool", turn)
    return page(turn)
