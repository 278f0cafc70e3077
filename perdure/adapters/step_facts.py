"""What a worker knows of the activity it runs, for logs and traces alike."""

from dataclasses import dataclass

from temporalio import activity

from perdure.domain.steps import JudgeRequest, ModelCallRequest, ToolCallRequest


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One attempt of one step; `run` is None for activities outside of runs, such as `ready`."""

    step: str
    attempt: int
    run: str | None = None
    iteration: int | None = None

    def fields(self) -> dict[str, str | int]:
        """The known facts by name."""
        known = {"run": self.run, "iteration": self.iteration, "step": self.step}
        return {
            **{name: value for name, value in known.items() if value is not None},
            "attempt": self.attempt,
        }


def step_facts(request: object) -> StepFacts:
    """The facts of the running activity; `request` is its argument."""
    info = activity.info()
    return StepFacts(
        step=info.activity_type,
        attempt=info.attempt,
        run=info.workflow_id,
        iteration=iteration_of(request),
    )


def iteration_of(request: object) -> int | None:
    """The iteration that a request belongs to, or None where it says none."""
    match request:
        case ModelCallRequest() | ToolCallRequest():
            return request.iteration
        case JudgeRequest():
            return request.call.iteration
        case _:
            return None
