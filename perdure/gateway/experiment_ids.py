"""Whether an id is free for an experiment, whose workflow has it, and whose runs begin with it."""

from perdure.domain.experiments.plan import is_trial_run
from perdure.domain.experiments.store import ExperimentStore
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.names import EXPERIMENT_WORKFLOW
from perdure.domain.ports import RecordStore
from perdure.gateway.temporal_gateway import TemporalGateway

PAGE = 1_000


async def require_free(
    id: str, *, store: ExperimentStore, records: RecordStore, server: TemporalGateway
) -> None:
    """Refuse an id that a run has, or under which a deleted experiment left runs.

    An open run would be taken for the experiment, and would get what is sent to it; of one that
    has ended, the server's newest execution would be another's.

    Raises:
        NotAllowed: it is in use.
    """
    look = await server.look(id)
    other = look is not None and look.kind != EXPERIMENT_WORKFLOW
    if other or await records.run(id) is not None:
        raise NotAllowed(f"The id {id} belongs to a run.", cure="Choose another id.")
    offset = 0
    while found := await records.find_runs(prefix=f"{id}-", limit=PAGE, offset=offset):
        left = next((run.id for run in found if is_trial_run(run.id, id)), None)
        # Somebody else may have started the same one meanwhile, whose runs these are.
        if left is not None and await store.get(id) is None:
            raise NotAllowed(
                f"Runs of another experiment {id} are still here, such as {left}.",
                cure="Choose another id.",
            )
        offset += len(found)
