"""The steps on the queues on which loops are started, made from the parts of a worker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from temporalio.client import Client

from perdure.activities.open_task import OpenTask
from perdure.activities.read_run_output import ReadRunOutput
from perdure.composition.client_services import opening_of
from perdure.composition.parts import Parts


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """What opens tasks, and what reads long outputs for whoever started one."""

    opening: OpenTask
    reading: ReadRunOutput

    @property
    def activities(self) -> Sequence[Callable[..., object]]:
        """As a worker registers them."""
        return [self.opening.open_task, self.reading.read_run_output]


def task_steps(
    parts: Parts, client: Client, *, lacks: Callable[[], Mapping[str, str]]
) -> TaskSteps:
    """The steps of a worker.

    Args:
        parts: of the worker.
        client: its connection.
        lacks: models that cannot be called, each with the reason.
    """
    return TaskSteps(
        OpenTask(
            opening_of(parts, client, lacks=lacks).open,
            blobs=parts.stores.blobs,
            inline=parts.settings.inline_output_bytes,
        ),
        ReadRunOutput(parts.stores.blobs),
    )
