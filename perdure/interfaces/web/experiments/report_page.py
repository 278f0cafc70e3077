"""The page of one experiment: its report, and the actions that are possible now."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi.responses import Response
from markupsafe import Markup

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.experiments.export import svg
from perdure.interfaces.experiments.pasted_inputs import INPUT_FORMS
from perdure.interfaces.experiments.report import ExperimentReport, Loss
from perdure.interfaces.experiments.words import (
    ESTIMATE,
    arm_cells,
    estimate_cells,
    heading_words,
    judge_words,
    progress_words,
    state_words,
)
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.visit import Visit, run_path

ARM_COLUMNS = ("Score", "95 %", "Passed", "Tokens", "Cost", "Time", "Calls", "Iterations")
SHOWN_LOSSES = 20
FILES = {
    "csv": "All trials as CSV",
    "jsonl": "All trials as JSON lines",
    "md": "The report as Markdown",
    "svg": "The plot as SVG",
}


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of the table of arms: its figures by name, and remarks."""

    name: str
    figures: tuple[tuple[str, str], ...]
    remarks: str


@dataclass(frozen=True, slots=True)
class LossRow:
    """An input on which the better arm was worse, with links to the runs of both."""

    entry: str
    words: str
    runs: tuple[tuple[str, str], ...]


async def shown(
    visit: Visit, experiment: str, found: ApiProblem | None = None, *, inputs: str = ""
) -> Response:
    """Show the report of one experiment.

    Args:
        visit: the visitor's request.
        experiment: its id.
        found: a refused action, shown above the report.
        inputs: further inputs that were refused, kept for correction.
    """
    status = await visit.api.get(at("experiments", experiment), ExperimentStatus)
    report = await report_of(visit, experiment)
    drawn = svg(report)
    return visit.page(
        "experiments/experiment.html",
        status_code=found.status if found else 200,
        found=found,
        status=status,
        report=report,
        heading=heading_words(report),
        state=state_words(status.state, status.reason),
        progress=progress_words(status),
        share=status.ended / status.trials if status.trials else 0.0,
        address=at("experiments", experiment),
        columns=ARM_COLUMNS,
        arms=[_arm(arm_cells(arm)) for arm in report.arms],
        judge=None if report.judge is None else judge_words(report.judge),
        studies=[
            (study.arm, [estimate_cells(one, study) for one in study.estimates])
            for study in report.thresholds
        ],
        estimate=ESTIMATE,
        losses=[_loss(loss) for loss in report.losses[:SHOWN_LOSSES]],
        # A chart is made here, with every name in it escaped.
        drawn=Markup(drawn) if drawn else None,
        files=[(name, told) for name, told in FILES.items() if drawn or name != "svg"],
        input_forms=INPUT_FORMS,
        more=inputs,
    )


async def report_of(visit: Visit, experiment: str) -> ExperimentReport:
    """Read the report as data."""
    return await visit.api.get(at("experiments", experiment, "report"), ExperimentReport)


def _arm(cells: Sequence[str]) -> Arm:
    return Arm(cells[0], tuple(zip(ARM_COLUMNS, cells[1:-1], strict=True)), cells[-1])


def _loss(loss: Loss) -> LossRow:
    words = f"{loss.arm} was worse than {loss.against} by {loss.by:.2f}"
    links = tuple((run, run_path(run)) for run in (*loss.runs, *loss.other_runs))
    return LossRow(loss.entry, words, links)
