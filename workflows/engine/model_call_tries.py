"""What happened to the tries of one model call so far, over all of its reservations."""

from dataclasses import dataclass
from typing import assert_never

from perdure.domain.budget.accounting import LimitReached
from perdure.domain.foundation.names import short_model_name
from perdure.domain.foundation.retry_policies import LOST_WORKERS
from perdure.domain.run.activity_messages import ModelCallReport, StructuredReport
from perdure.workflows.engine.step_runner import StepFailed


@dataclass(frozen=True, slots=True)
class Unpriced:
    """A cost limit forbids a model whose price nobody knows."""

    model: str


@dataclass(frozen=True, slots=True)
class AllModelsFailed:
    """No model of the chain answered; `code` says why the last one did not."""

    code: str
    message: str


Reported = ModelCallReport | StructuredReport
Called = Reported | LimitReached | Unpriced | StepFailed | AllModelsFailed
Tried = ModelCallReport | StructuredReport | LimitReached | Unpriced | StepFailed
WHY_CHARACTERS = 300
UNREAD_TRIES = 3


def why_unusable(called: Called) -> str | None:
    """Why a call brought no usable reply, for people; None if it had no budget or no structure."""
    match called:
        case AllModelsFailed() | StepFailed():
            return f"{called.code}: {called.message}"[:WHY_CHARACTERS]
        case Unpriced():
            return f"nobody knows the price of {short_model_name(called.model)}"
        case ModelCallReport() | LimitReached():
            return None
        case _:
            return "; ".join(called.problems)[:WHY_CHARACTERS]


def named(report: Reported, model: str) -> Reported:
    """The report with the model that answered filled in."""
    if isinstance(report, ModelCallReport):
        return report.model_copy(update={"model": report.model or model})
    call = report.call.model_copy(update={"model": report.call.model or model})
    return report.model_copy(update={"call": call})


@dataclass(slots=True)
class ModelAttempts:
    """Counts that never mix: outgrown estimates, failures of the provider, lost workers.

    `counted` is the prompt as the provider counted it, `cause` the newest failure of the provider,
    `pause_s` how long it is left alone now, `failing_s` how long ago it failed first. `first_step`
    is the step that asked first; with a `fallback` another model can be asked instead. `unread` are
    results that somebody sent by hand, and that are no reports.
    """

    fallback: bool = False
    first_step: str = ""
    counted: int = 0
    outgrown: int = 0
    lost: int = 0
    failed: int = 0
    failing_s: float = 0.0
    unread: int = 0
    cause: StepFailed | None = None
    pause_s: float | None = None

    def note_try(self, called: Tried) -> Tried | None:
        """What the call has come to with this try; None when another one may be made."""
        self.pause_s = None
        if isinstance(called, StepFailed) and (failed := called.retryable_failure) is not None:
            self.cause, self.pause_s = called, failed.again_after_s
            self.failed = failed.failures
            # With the pause: the time until another model is asked counts from the first failure.
            self.failing_s = failed.failing_for_s + (failed.again_after_s or 0.0)
            return None
        if isinstance(called, StepFailed) and called.unreadable:
            self.unread += 1
            return called if self.unread >= UNREAD_TRIES else None
        if isinstance(called, LimitReached) and self.cause is not None:
            note = f"{called.text}, after {self.cause.message}"
            return called.model_copy(update={"note": note})
        report = called.call if isinstance(called, StructuredReport) else called
        if not isinstance(report, ModelCallReport):
            return called
        match report.status:
            case "replied":
                return called
            case "does_not_fit":
                self.counted = max(self.counted, report.prompt_tokens)
                self.lost += report.account.lost_attempts
                # What lost attempts used up is no fault of the estimate.
                self.outgrown += 0 if report.account.lost_attempts else 1
            case "lost_workers":
                self.lost = LOST_WORKERS
            case "interrupted":
                return StepFailed("", "interrupted", "the call was ended early")
            case "sealed":
                return StepFailed("", "sealed", "this execution may not spend any more")
            case _:
                assert_never(report.status)
        return None
