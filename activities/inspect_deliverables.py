"""The activity `inspect_work`: what a manager hands over, as its next gate wants to see it."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, within
from perdure.activities.support.timer import Stopwatch
from perdure.domain.delegation.deliverable_port import Inspector
from perdure.domain.delegation.deliverable_quality import deliverable_text
from perdure.domain.delegation.messages import InspectReport, InspectRequest
from perdure.domain.delegation.prompts import criteria_prompt
from perdure.domain.evaluation.program_checks import Command
from perdure.domain.evaluation.verifier_ports import CommandRunner
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.ports import BlobStore
from perdure.domain.tools.workspaces import Workspaces

SHOWN_CHARACTERS = 12_000
SAID_CHARACTERS = 600


class InspectWork:
    """Looks at files where they are; programs run on a copy."""

    def __init__(
        self,
        *,
        blobs: BlobStore,
        inspector: Inspector,
        workspaces: Workspaces,
        commands: CommandRunner,
    ) -> None:
        self._blobs = blobs
        self._inspector = inspector
        self._workspaces = workspaces
        self._commands = commands

    @activity.defn
    @translated
    async def inspect_work(self, step: InspectRequest) -> InspectReport:
        """Gather the one fact that is wanted."""
        watch = Stopwatch()
        ended = await within(self._look(step), seconds=step.active_time_s)
        report = ended.value if isinstance(ended, Finished) else InspectReport()
        return report.model_copy(update={"seconds": watch.seconds})

    async def _look(self, step: InspectRequest) -> InspectReport:
        final = "" if step.final is None else await self._blobs.get_text(step.final)
        match step.wanted:
            case "contract":
                problems = await self._inspector.misfits(final, step.output_schema or {})
                return InspectReport(contract=problems)
            case "files":
                return InspectReport(
                    files=await self._inspector.facts(step.root, step.deliverables)
                )
            case "smoke":
                return InspectReport(smoke=await self._smoke(step, final))
            case "text":
                files = await self._inspector.texts(step.root, step.deliverables)
                text = deliverable_text(final, files)
                return InspectReport(text=await self._blobs.put_text(text))
            case "criteria":
                files = await self._inspector.texts(step.root, step.deliverables)
                work = {"final result": final} if final else {}
                work |= {f"file {path}": text for path, text in files.items()}
                shown = {name: text[:SHOWN_CHARACTERS] for name, text in work.items()}
                prompt = criteria_prompt(step.goal, step.criteria, shown)
                return InspectReport(question=await self._blobs.put_text(prompt))

    async def _smoke(self, step: InspectRequest, final: str) -> str:
        """Empty when the program ended well; else what it said last."""
        tree = (await self._workspaces.snapshot(run=step.run, root=step.root)).hash
        async with self._workspaces.checkout(tree=tree) as folder:
            command = Command(argv=tuple(step.smoke_test or ()), folder=folder, output=final)
            try:
                ran = await self._commands.run(command)
            except NotAllowed as error:
                return f"`{command.line}` could not be run: {error}"[:SAID_CHARACTERS]
        if ran.code == 0:
            return ""
        said = (ran.err.strip() or ran.out.strip())[-SAID_CHARACTERS:]
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        return f"`{command.line}` {how}: {said}"
