"""What a kind of loop needs of its worker, checked before anything is spent."""

from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.run.activity_messages import OpenWorkspaceReport, StageSetup, StageTools


class Requirements:
    """The requirements of a kind of loop; by default there are none."""

    def needs(self) -> WorkerRequirements:
        """The programs, plugins and rights that the worker must have."""
        return WorkerRequirements()

    def seats(self) -> dict[str, StageTools]:
        """The stages that have a tool grant of their own; most loops have none."""
        return {}

    def seat_orders(self, report: OpenWorkspaceReport) -> dict[str, StageSetup]:
        """The frames of those stages, made once the worker has granted their tools."""
        return {}

    def belongs(self) -> tuple[str, str]:
        """The ids of the run's session and project; empty for none."""
        return "", ""

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember what the loop has to know of its worker later."""

    def orchestrates(self) -> bool:
        """Whether the run's model may start and steer loops."""
        return False

    def judges(self) -> tuple[str, ...]:
        """Models that are called in addition to those of the roles."""
        return ()
