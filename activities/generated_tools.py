"""The activities `make_tool` and `repair_tool`: validate a drafted tool, or repair it."""

from dataclasses import dataclass
from functools import partial

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, Stopwatch, within
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.delegation.repeated_work import listed_for
from perdure.domain.foundation.tolerance import read
from perdure.domain.generated_tools.code import Checked
from perdure.domain.generated_tools.draft import PIPELINE, ToolDraft
from perdure.domain.generated_tools.dry_run import (
    TRIAL_SECONDS,
    ToolSandbox,
    dry_run_refusal,
    smoke_refusal,
    synthetic_arguments,
)
from perdure.domain.generated_tools.messages import (
    MakeToolReport,
    MakeToolRequest,
    RepairToolReport,
    RepairToolRequest,
)
from perdure.domain.generated_tools.pipeline import (
    REPAIR_SYSTEM,
    check_admission,
    check_text,
    read_repair,
    repair_question,
    repair_schema,
)
from perdure.domain.generated_tools.record import GeneratedTool, MadeToolStore, ToolAuthor, describe
from perdure.domain.generated_tools.rejections import ToolRefused, refused
from perdure.domain.ports import BlobStore, ToolHost

SHOWN_CHARACTERS = 2_500


@dataclass(frozen=True, kw_only=True)
class MakeTool:
    """Validates drafts. Repeating it is harmless: a tool is named by the hash of its draft."""

    store: MadeToolStore
    blobs: BlobStore
    sandbox: ToolSandbox
    host: ToolHost

    @activity.defn
    @translated
    async def make_tool(self, step: MakeToolRequest) -> MakeToolReport:
        """Run every stage of validation in order; a refusal is a report, not an error."""
        watch = Stopwatch()
        draft = read(ToolDraft, await self.blobs.get(step.draft))
        # No time limit of its own: every run of the code has one, in the sandbox.
        ended = await within(self._made(draft, step), seconds=None)
        match ended:
            case Finished(value=report):
                return report.model_copy(update={"seconds": watch.seconds})
            case _:
                told = refused("freeze", 422, "validation", "the run was stopped meanwhile")
                return MakeToolReport(name=draft.name, refused=told, seconds=watch.seconds)

    async def _made(self, draft: ToolDraft, step: MakeToolRequest) -> MakeToolReport:
        catalog = [fact.name for fact in await self.host.catalog()]
        # The hash covers name, code and schema, so a draft that passed once needs no second trial,
        # in any run.
        known = await self.store.get(draft.hash)
        # One more than the limit, since the draft itself may be among them.
        of_tree = await self.store.list(root=step.root, limit=step.settings.per_run + 1)
        others = sum(tool.hash != draft.hash for tool in of_tree)
        namespaces = listed_for(step.worker, step.settings.worker_namespaces)
        admitted = check_admission(draft, step, namespaces=namespaces, catalog=catalog, made=others)
        if isinstance(admitted, ToolRefused):
            return await self._refused(draft, admitted)
        if known is not None and known.state == "rejected":
            told = f"{draft.name} was rejected by {known.decided_by}; write other code"
            return await self._refused(draft, refused("freeze", 403, "approval", told))
        approved = known is not None and known.state == "approved"
        if draft.hash in step.denied and not approved:
            told = f"people denied {draft.name} to this run; write other code"
            return await self._refused(draft, refused("freeze", 403, "approval", told))
        # Admission is checked before this: another run's approval does not lift the limits of this
        # run.
        if known is not None and known.current and await self.blobs.exists(known.code):
            return _report(await self._keep(known, step), draft, step, cached=True)
        checked = check_text(draft)
        if isinstance(checked, ToolRefused):
            return await self._refused(draft, checked)
        failure = await self._tried(draft, checked)
        if failure is not None:
            return await self._refused(draft, failure)
        frozen = await self._freeze(draft, checked, step)
        return _report(frozen, draft, step, cached=False)

    async def _tried(self, draft: ToolDraft, checked: Checked) -> ToolRefused | None:
        """Run the draft on its own examples, then on made-up arguments."""
        name = checked.handler.name
        for example in draft.examples:
            trial = await self.sandbox.run(
                draft.code, name, example.arguments, seconds=TRIAL_SECONDS
            )
            failure = smoke_refusal(example, trial)
            if failure is not None:
                return failure
        arguments = synthetic_arguments(draft.parameters)
        trial = await self.sandbox.run(draft.code, name, arguments, seconds=TRIAL_SECONDS)
        return dry_run_refusal(arguments, trial)

    async def _freeze(
        self, draft: ToolDraft, checked: Checked, step: MakeToolRequest
    ) -> GeneratedTool:
        tool = GeneratedTool(
            hash=draft.hash,
            name=draft.name,
            description=describe(draft, checked.handler.summary),
            parameters=draft.parameters,
            code=await self.blobs.put(draft.code.encode()),
            handler=checked.handler.name,
            pipeline=PIPELINE,
            # Not the clock: a retried attempt would store another time for the same tool.
            made_at=activity.info().scheduled_time,
        )
        return await self._keep(tool, step)

    async def _keep(self, tool: GeneratedTool, step: MakeToolRequest) -> GeneratedTool:
        at = activity.info().scheduled_time
        maker = ToolAuthor(run=step.run, root=step.root, worker=step.worker, at=at)
        return await self.store.keep(tool, maker)

    async def _refused(self, draft: ToolDraft, failure: ToolRefused) -> MakeToolReport:
        question = None
        if failure.repairable:
            question = await self.blobs.put_text(repair_question(draft, failure))
        return MakeToolReport(name=draft.name[:80], refused=failure, question=question)


def _report(
    tool: GeneratedTool, draft: ToolDraft, step: MakeToolRequest, *, cached: bool
) -> MakeToolReport:
    shown = draft.code if step.settings.approve else ""
    return MakeToolReport(
        name=tool.name,
        hash=tool.hash,
        description=tool.description,
        cached=cached,
        approved=tool.state == "approved",
        shown=shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}\n…",
    )


TEMPERATURE = 0.0


class RepairTool:
    """Asks a model to repair a draft; the result passes the same validation again."""

    def __init__(self, structured: StructuredCalls, *, blobs: BlobStore) -> None:
        self._structured = structured
        self._blobs = blobs

    @activity.defn
    @translated
    async def repair_tool(self, step: RepairToolRequest) -> RepairToolReport:
        """Ask for a repair; the tool keeps its name, whatever the reply says."""
        draft = read(ToolDraft, await self._blobs.get(step.draft))
        answered = await self._structured.ask(
            step.call,
            schema=repair_schema(),
            read=partial(read_repair, draft=draft),
            system=REPAIR_SYSTEM,
            temperature=TEMPERATURE,
        )
        stored = ""
        if answered.value is not None:
            stored = await self._blobs.put(answered.value.model_dump_json().encode())
        return RepairToolReport(call=answered.call, draft=stored, problems=answered.problems)
