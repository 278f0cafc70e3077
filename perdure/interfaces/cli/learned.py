"""What came of the run that learns from a run, for whoever looks at the run itself."""

from dataclasses import dataclass

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.run.result import RunResult
from perdure.interfaces.services import Services

LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Learned:
    """How many learnings a run left, and what the run that learns from it says of itself.

    `count` is None while that one is at work.
    """

    told: str
    count: int | None = None


async def find_learned(services: Services, result: RunResult) -> Learned | None:
    """What was learned from an ended run; None when nothing is to be learned from it."""
    if not result.learnings_started:
        return None
    learner = learn_run_id(result.id)
    try:
        ended = await services.gateway.result(learner, wait=False)
    except (NotAllowed, NotFound):
        return Learned(f"goes on in a run of its own: perdure watch {learner}")
    entries = await services.memory.list(kinds=("learning",), limit=LOOKED_AT)
    count = sum(any(origin.run == result.id for origin in item.origins) for item in entries)
    # Its explanation says that the looking went well, which after a failed run reads wrongly.
    said = ended.output if ended.outcome == "accepted" else None
    return Learned(said or ended.explanation, count)
