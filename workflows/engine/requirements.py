"""What a kind of loop demands of its worker before it begins, and what it learns of it there."""

from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.run.activity_messages import OpenWorkspaceReport, StageSetup, StageTools


class Requirements:
    """The demands of a kind of loop; a loop without a rubric has none."""

    def needs(self) -> WorkerRequirements:
        """What the worker must have before anything is spent."""
        return WorkerRequirements()

    def seats(self) -> dict[str, StageTools]:
        """The stages that work under a grant of their own; most loops have none."""
        return {}

    def seat_orders(self, report: OpenWorkspaceReport) -> dict[str, StageSetup]:
        """The frames of those stages, once it is known what each of them may."""
        return {}

    def belongs(self) -> tuple[str, str]:
        """The ids of the session and the project that the run belongs to; empty for none."""
        return "", ""

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember what the loop has to know of its worker later."""

    def orchestrates(self) -> bool:
        """Whether the run's model may start and steer loops."""
        return False

    def judges(self) -> tuple[str, ...]:
        """Models that are called beside those of the roles."""
        return ()
