"""The recorded scenes of runs that a Temporal client started with their task alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from installation import Installation
from kept_scenes import Scene, agent, at_rest, listing
from waiting import eventually

from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.run.messages import Resume


@dataclass(frozen=True)
class PlainScene(Scene):
    """A run that is paused before its task is read."""

    async def start(self, site: Installation, name: str) -> str:
        """Start the workflow, with the pause in the same request."""
        task = {**self.spec, "models": {"executor": await site.script(self.script)}}
        kind, queue = WORKFLOW_TYPES[str(self.spec["kind"])], site.settings.task_queue
        await site.client.start_workflow(
            kind, task, id=name, task_queue=queue, start_signal="pause"
        )
        return name


async def resume(site: Installation, run: str) -> None:
    """Go on once the run stands still."""
    await eventually(lambda: at_rest(site, run))
    await site.gateway.verb(run, Resume(by="ann"))


CLIENT_SCENES: Mapping[str, Scene] = {
    "agent_of_a_plain_client": PlainScene(
        spec=agent(),
        script={"replies": [listing("."), {"text": "nothing here"}]},
        ends=("accepted", "text_answer"),
        steer=resume,
    )
}
