"""Single tool calls as steps: checking one, running one, and reporting a lost one."""

from collections.abc import Sequence

from temporalio import workflow

from perdure.activities.tool_calls import CallTool, CheckCall
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.activity_messages import ToolCallReport, ToolCallRequest
from perdure.domain.tools.definitions import CheckCallReport
from perdure.domain.turns.repeated_tool_calls import ToolCounters, times_returned
from perdure.domain.turns.tool_call_rules import PlannedCall, ToolPolicy
from perdure.domain.turns.turn import CallOutcome, TurnState
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.activity_tools import NOT_RUN
from perdure.workflows.engine.policies import TurnPolicy
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed

CHANGES_SAY_THE_SAME = "tools that change something may say the same each time"

WAVE = 16
CHANGES = frozenset({"write", "execute"})
# Errors after which the tool may have run, although there is no result of it.
UNCERTAIN = frozenset({"timeout", "effect_uncertain"})
MOVED = (
    "The host of the working folder was lost. The folder was made anew from its last snapshot: "
    "your files are there, ignored ones (installed packages, build output) are not."
)


class ToolCallSteps:
    """Starts single tool calls, and reports what happened to a lost one."""

    def __init__(self, run: AnyRun, policy: TurnPolicy) -> None:
        self.run = run
        self.policy = policy

    def start_look(
        self, state: TurnState, entry: PlannedCall
    ) -> tuple[str, workflow.ActivityHandle[CheckCallReport]]:
        activity_id = self.run.next_activity_id()
        timeout_s = self.terms_of(entry).timeout_s
        handle = workflow.start_activity_method(
            CheckCall.check_call,
            self._request(state, entry, timeout_s=timeout_s),
            **activity_options.tool_call(
                self.run.site,
                activity_id=activity_id,
                summary=f"look at {entry.call.name} {entry.call.label} before it is approved",
                timeout_s=timeout_s,
                # A look changes nothing, whatever the tool itself does, so it may be repeated
                # freely.
                idempotent=True,
                host=self.run.state.hosted,
            ),
        )
        return activity_id, handle

    def start_call(
        self, state: TurnState, entry: PlannedCall
    ) -> tuple[str, workflow.ActivityHandle[ToolCallReport]]:
        terms, activity_id = self.terms_of(entry), self.run.next_activity_id()
        self.run.record_event("tool_started", tool=entry.call.name, label=entry.call.label or None)
        handle = workflow.start_activity_method(
            CallTool.call_tool,
            self._request(
                state, entry, timeout_s=terms.timeout_s, active_time_s=self.run.active_time_left
            ),
            **activity_options.tool_call(
                self.run.site,
                activity_id=activity_id,
                summary=f"{entry.call.name} {entry.call.label} (iteration {self.run.iteration})",
                timeout_s=terms.timeout_s,
                # For a foreign activity this step only reads the arguments.
                idempotent=terms.idempotent or terms.activity is not None,
                host=self.run.state.hosted if terms.activity is None else None,
            ),
        )
        return activity_id, handle

    def _request(
        self,
        state: TurnState,
        entry: PlannedCall,
        *,
        timeout_s: float,
        active_time_s: float | None = None,
    ) -> ToolCallRequest:
        terms = self.terms_of(entry)
        # A foreign activity has no working folder: any host may read its arguments.
        hosted = self.run.state.hosted is not None and terms.activity is None
        return ToolCallRequest(
            frame=self.run.state.frame or "",
            head=state.head.hash if state.head else "",
            call_id=entry.call.id,
            name=entry.call.name,
            iteration=self.run.iteration,
            args_hash=entry.call.args_hash,
            timeout_s=timeout_s,
            active_time_s=active_time_s,
            stage=self.policy.stage_name,
            root=self.run.state.root if hosted else "",
            # In the same step as the call: wherever the host is lost, folder and transcript agree.
            takes_snapshot=hosted
            and self.run.state.base_tree is not None
            and terms.access in CHANGES,
            made=entry.call.name in self.run.spec.tools.generated,
        )

    def take_move_note(self) -> str:
        """What the model is told, once, of a working folder that was made anew."""
        hosted = self.run.state.hosted
        if hosted is None or not hosted.moved:
            return ""
        self.run.state.hosted = hosted.model_copy(update={"moved": False})
        return MOVED

    def lost_call(self, entry: PlannedCall, broken: StepFailed, *, ran: bool = True) -> CallOutcome:
        """The outcome of a call that ended without a report; it is never repeated blindly."""
        if broken.code in {"cancelled", "unresponsive"}:
            return CallOutcome(call_id=entry.call.id, outcome="interrupted", note=broken.message)
        lost = broken.lost or broken.unreadable or broken.code in UNCERTAIN
        # The tool may have sent its mail or written its file before the worker died. Only a look
        # can tell, and the model is the one who can look.
        if ran and lost and not broken.unbegun and not self.terms_of(entry).idempotent:
            how = "completed by hand, without its result" if broken.unreadable else "lost"
            note = (
                f"{entry.call.name} was {how} while it ran. Its effect is uncertain: look before "
                "you call it again."
            )
            return CallOutcome(call_id=entry.call.id, outcome="effect_uncertain", note=note)
        code = NOT_RUN if broken.unbegun else broken.code
        return CallOutcome(call_id=entry.call.id, outcome="error", note=f"{code}: {broken.message}")

    def terms_of(self, entry: PlannedCall) -> ToolPolicy:
        return next(
            (term for term in self.run.state.terms if term.name == entry.call.name),
            ToolPolicy(name=entry.call.name),
        )

    def counts_result(self, entry: PlannedCall, result: BlobRef, tallies: ToolCounters) -> bool:
        """Whether a result as before says that a call brought nothing new."""
        term = self.terms_of(entry)
        if term.repeat_exempt or term.brings_news:
            return not term.repeat_exempt
        # Only a second such result raises a count, so only then is the patch asked.
        if not times_returned(tallies, entry.call.name, result.hash):
            return True
        return not workflow.patched(CHANGES_SAY_THE_SAME)


def newest_tree(ended: Sequence[Completed[ToolCallReport] | StepFailed]) -> str | None:
    """The working folder after calls that ran side by side; None if none of them changed it."""
    reports = [one.report for one in ended if isinstance(one, Completed)]
    stored = [one for one in reports if one.tree is not None]
    return max(stored, key=lambda one: one.tree_at).tree if stored else None


def seconds_of(ended: Completed[ToolCallReport] | StepFailed) -> float:
    """How long a call worked."""
    return ended.report.seconds if isinstance(ended, Completed) else 0.0


def settle(state: TurnState, entry: PlannedCall, settled: CallOutcome) -> None:
    """Note how a call of the open batch ended."""
    if state.batch is not None:
        state.batch.settled[entry.call.id] = settled
