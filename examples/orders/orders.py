"""An order of a shop: charge, have the mail written by a loop, let a person approve, send."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import LoopFailed, refine

QUEUE = "orders"
RUBRIC = [
    {"name": "length", "evaluator": {"check": "length", "unit": "words", "min": 8, "max": 60}},
    {"name": "item", "evaluator": {"check": "contains", "all": ["bottle"]}},
]
FALLBACK = "Thank you for your order."


@dataclass
class Order:
    """What was bought; `model` writes the mail, None is the worker's default."""

    id: str
    item: str
    model: str | None = None


@activity.defn
async def charge(order: Order) -> str:
    """Take the money."""
    return f"receipt-{order.id}"


@activity.defn
async def send(mail: str) -> None:
    """Send the mail."""
    activity.logger.info("sent: %s", mail)


@workflow.defn
class OrderWorkflow:
    """Charges once, whatever becomes of the mail."""

    def __init__(self) -> None:
        self.mail = ""
        self.approved = False

    @workflow.run
    async def run(self, order: Order) -> str:
        """Return the mail that was sent; a cancelled order ends as cancelled, and sends none."""
        await workflow.execute_activity(charge, order, start_to_close_timeout=timedelta(seconds=30))
        try:
            result = await refine(
                f"Write a mail that confirms the order of a {order.item}.",
                id=f"mail-{order.id}",
                rubric=RUBRIC,
                refine={"plan": "off"},  # a mail needs no plan
                models={"executor": order.model} if order.model else {},
                budget={"cost_usd": "0.05"},
            )
            self.mail = result.output or FALLBACK
        except LoopFailed:
            self.mail = FALLBACK
        await workflow.wait_condition(lambda: self.approved)
        await workflow.execute_activity(
            send, self.mail, start_to_close_timeout=timedelta(seconds=30)
        )
        return self.mail

    @workflow.signal
    def approve(self) -> None:
        """Let the mail go out."""
        self.approved = True

    @workflow.query
    def draft(self) -> str:
        """The mail as it stands."""
        return self.mail


async def main() -> None:
    """Serve the orders, and the loops that they start."""
    client = await Client.connect("localhost:7233", plugins=[PerdurePlugin()])
    worker = Worker(client, task_queue=QUEUE, workflows=[OrderWorkflow], activities=[charge, send])
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
