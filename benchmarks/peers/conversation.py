"""What every peer's worker shares: its order, its queue, and the activities beside the turns."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

QUEUE = "peer-{name}"
WORKFLOW = "PeerLoop"
TIMEOUT = timedelta(seconds=60)
MOST_TURNS = 1_000_000


@dataclass
class PeerOrder:
    """How many turns, and how many steps beside them."""

    turns: int
    beside: int = 0


@activity.defn
async def keep_books(step: int) -> int:
    """A step beside the turns: the product opens and closes a run with some."""
    return step


async def beside(order: PeerOrder) -> None:
    """The steps beside the turns, from a workflow."""
    for step in range(order.beside):
        await workflow.execute_activity(keep_books, step, start_to_close_timeout=TIMEOUT)
