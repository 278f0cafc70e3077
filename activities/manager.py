"""The activities of a manager: `manage`, `shelve`, `brief` and `inspect_work`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue
from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, Stopwatch, within
from perdure.activities.support.run_storage import Frames
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.deliverables import Inspector, deliverable_text, shown_work
from perdure.domain.delegation.messages import (
    Assignment,
    BriefReport,
    BriefRequest,
    InspectReport,
    InspectRequest,
    ManageReport,
    ManageRequest,
)
from perdure.domain.delegation.parse_decision import read_decision
from perdure.domain.delegation.prompts import (
    MANAGER_SYSTEM,
    WorkerTask,
    criteria_prompt,
    worker_prompt,
)
from perdure.domain.delegation.schemas import decision_schema
from perdure.domain.delegation.summary import is_usable
from perdure.domain.evaluation.program_checks import Command
from perdure.domain.evaluation.verifier_ports import CommandRunner
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.json_extraction import as_text
from perdure.domain.foundation.plain_text import quoted
from perdure.domain.llm.attachments import attachment_in
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import ROLLING_SUMMARY, Artifact, Reach
from perdure.domain.run.activity_messages import ModelCallRequest, ShelveReport, ShelveRequest
from perdure.domain.tools.workspaces import Workspaces
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import is_added
from perdure.domain.turns.prompts import input_address, input_text

WRAPPING_UP = "wrapping_up"


@dataclass(frozen=True, kw_only=True)
class Manage:
    """Asks a manager in a context of its own: its prompt holds all that a decision needs."""

    structured: StructuredCalls
    blobs: BlobStore
    artifacts: ArtifactStore
    frames: Frames
    now: Callable[[], datetime]

    @activity.defn
    @translated
    async def manage(self, step: ManageRequest) -> ManageReport:
        """Ask for a decision, and read it in whatever form it came."""
        if step.summary is not None:
            await self._keep_summary(step.call, step.summary)
        answered = await self.structured.ask(
            step.call, schema=decision_schema(), read=read_decision, system=MANAGER_SYSTEM
        )
        decision = answered.value
        if decision is None:
            return ManageReport(call=answered.call, problems=answered.problems)
        final = None
        # The result of the whole run can be long: it is stored here, and only its address goes into
        # history.
        if isinstance(decision, Complete) and is_usable(decision.final_result):
            final = await self.blobs.put_text(as_text(decision.final_result))
        return ManageReport(call=answered.call, decision=decision, final=final)

    async def _keep_summary(self, call: ModelCallRequest, where: tuple[int, int]) -> None:
        """Keep the rolling summary as an artifact of the iteration; a retry writes nothing new.

        After a reset the iteration is done again, and its new summary takes the place of the old.
        """
        said = [entry.text for entry in call.append if isinstance(entry, SayEntry)]
        text = said[-1][slice(*where)] if said else ""
        if not text:
            return
        stored = await self.blobs.put_text(text)
        frame = await self.frames.load(call.frame)
        run, grant = frame.run, frame.grant
        # The closing call comes after the iteration of the same number was decided.
        at_end = "-end" if call.phase == WRAPPING_UP else ""
        artifact = Artifact(
            id=f"{run}-{call.iteration}-summary{at_end}",
            belongs=Reach(run=run, session=grant.session, project=grant.project).belonging(),
            run=run,
            iteration=call.iteration,
            kind=ROLLING_SUMMARY,
            name=f"rolling summary (iteration {call.iteration}{', at the end' if at_end else ''})",
            ref=stored.hash,
            bytes=stored.bytes,
            created_at=self.now(),
        )
        await self.artifacts.add_artifact(artifact, replaces=True)


# A child's input is part of its parent's history. At this size, a wave of children stays far below
# what the server accepts in one transaction.
PASSED_INLINE_BYTES = 1_024
BEGINNING_CHARACTERS = 2_000


class Shelve:
    """Stores inputs as blobs; equal inputs share an address, so a repeat stores nothing new."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    @activity.defn
    @translated
    async def shelve(self, step: ShelveRequest) -> ShelveReport:
        """Replace each long value by a reference to a blob."""
        values: dict[str, JsonValue] = {}
        shown: dict[str, str] = {}
        lost: dict[str, str] = {}
        for name, value in step.values.items():
            if (attached := attachment_in(value)) is not None:
                shown[name], values[name] = attached.words, value
                continue
            try:
                shown[name], values[name] = await self._put_by(value)
            except (NotFound, InvalidInput) as error:
                # No message to a run at work may fail it.
                if not is_added(name):
                    raise
                lost[name] = error.message
        return ShelveReport(values=values, shown=shown, lost=lost)

    async def _put_by(self, value: JsonValue) -> tuple[str, JsonValue]:
        """What a manager is shown of an input, and the input as it is passed on."""
        address = input_address(value)
        text = input_text(value) if address is None else await self._blobs.get_text(address)
        if address is None and len(text.encode()) > PASSED_INLINE_BYTES:
            address = (await self._blobs.put_text(text)).hash
        return beginning(text), value if address is None else {"ref": address}


def beginning(text: str) -> str:
    """The part of an input that a manager is shown; it passes on the whole by name."""
    if len(text) <= BEGINNING_CHARACTERS:
        return text
    left_out = len(text) - BEGINNING_CHARACTERS
    return (
        f"{text[:BEGINNING_CHARACTERS]}\n[{left_out} more characters; `inherit` hands it on whole]"
    )


class Brief:
    """Writes the briefings of workers as blobs."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    @activity.defn
    @translated
    async def brief(self, step: BriefRequest) -> BriefReport:
        """Write one briefing for each assignment, in order."""
        texts = [await self._text(step, one) for one in step.assignments]
        return BriefReport(briefings=tuple([await self._blobs.put(t.encode()) for t in texts]))

    async def _text(self, step: BriefRequest, given: Assignment) -> str:
        skills = {name: await self._blobs.get_text(ref) for name, ref in given.skills.items()}
        written = {f"given {n}": text for n, text in enumerate(given.written, start=1)}
        told = worker_prompt(
            WorkerTask(
                envelope=given.envelope,
                goal=step.goal,
                said=step.said,
                acceptance=given.acceptance,
                skills={**skills, **written},
                pitfalls=given.pitfalls,
                inherited={name: await self._whole(v) for name, v in given.inherited.items()},
            )
        )
        if given.previous is None:
            return told
        before = await self._blobs.get_text(given.previous)
        return "\n\n".join((told, quoted("your result so far", before), given.repair))

    async def _whole(self, value: JsonValue) -> JsonValue:
        if (attached := attachment_in(value)) is not None:
            return attached.words
        address = input_address(value)
        return value if address is None else await self._blobs.get_text(address)


SAID_CHARACTERS = 600


@dataclass(frozen=True, kw_only=True)
class InspectWork:
    """Inspects files where they are; runs programs on a copy."""

    blobs: BlobStore
    inspector: Inspector
    workspaces: Workspaces
    commands: CommandRunner

    @activity.defn
    @translated
    async def inspect_work(self, step: InspectRequest) -> InspectReport:
        """Gather the fact that the step asks for."""
        watch = Stopwatch()
        ended = await within(self._look(step), seconds=step.active_time_s)
        report = ended.value if isinstance(ended, Finished) else InspectReport()
        return report.model_copy(update={"seconds": watch.seconds})

    async def _look(self, step: InspectRequest) -> InspectReport:
        final = "" if step.final is None else await self.blobs.get_text(step.final)
        match step.wanted:
            case "contract":
                problems = await self.inspector.misfits(final, step.output_schema or {})
                return InspectReport(contract=problems)
            case "files":
                return InspectReport(files=await self.inspector.facts(step.root, step.deliverables))
            case "smoke":
                # On a copy: a test that leaves files behind must not change what is handed over.
                return InspectReport(smoke=await self._smoke(step, final))
            case "text":
                files = await self.inspector.texts(step.root, step.deliverables)
                text = deliverable_text(final, files)
                return InspectReport(text=await self.blobs.put_text(text))
            case "criteria":
                files = await self.inspector.texts(step.root, step.deliverables)
                work = {"final result": final} if final else {}
                work |= {f"file {path}": text for path, text in files.items()}
                shown = shown_work(work, room=step.room)
                prompt = criteria_prompt(step.goal, step.criteria, shown)
                return InspectReport(question=await self.blobs.put_text(prompt))

    async def _smoke(self, step: InspectRequest, final: str) -> str:
        """Run the smoke test; empty if it succeeded, else its last output."""
        tree = (await self.workspaces.snapshot(run=step.run, root=step.root)).tree.hash
        async with self.workspaces.checkout(tree=tree) as folder:
            command = Command(argv=tuple(step.smoke_test or ()), folder=folder, output=final)
            try:
                ran = await self.commands.run(command)
            except NotAllowed as error:
                return f"`{command.line}` could not be run: {error}"[:SAID_CHARACTERS]
        if ran.code == 0:
            return ""
        said = (ran.err.strip() or ran.out.strip())[-SAID_CHARACTERS:]
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        return f"`{command.line}` {how}: {said}"
