"""What a kind of loop demands of its worker before it begins, and what it learns of it there."""

from perdure.domain.admission import Needs
from perdure.domain.steps import OpenWorkspaceReport
from workflows.seating import Seating


class Admitting(Seating):
    """Adds demands to a loop; one without a rubric has none."""

    def needs(self) -> Needs:
        """What the worker must have before anything is spent."""
        return Needs()

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember what the loop has to know of its worker later."""
