"""A report as a file: Markdown for people, CSV or JSON lines for all trials, SVG."""

import csv
from collections.abc import Sequence
from decimal import Decimal
from io import StringIO

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.trials import Trial
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.interfaces.experiments.trial_rows import TrialRow, trial_rows
from perdure.interfaces.experiments.words import (
    COLUMNS,
    ESTIMATE,
    ESTIMATE_COLUMNS,
    arm_cells,
    estimate_cells,
    heading_words,
    judge_words,
)
from perdure.interfaces.spending import harmless
from perdure.interfaces.svg_chart import line_chart, share_scale

TRIAL_COLUMNS = tuple(TrialRow.model_fields)


def markdown(report: ExperimentReport) -> str:
    lines = [f"# {_plain(heading_words(report))}", ""]
    lines += [f"> **{_plain(warning)}**\n" for warning in report.warnings]
    lines += _table(COLUMNS, [arm_cells(arm) for arm in report.arms])
    lines += ["", *(f"- {_plain(pair.sentence)}" for pair in report.pairs)]
    if report.judge is not None:
        lines += ["", judge_words(report.judge)]
    for study in report.thresholds:
        lines += ["", f"## When {_plain(study.arm)} should stop", "", ESTIMATE, ""]
        lines += _table(ESTIMATE_COLUMNS, [estimate_cells(one, study) for one in study.estimates])
    if report.losses:
        rows = [
            (loss.entry, loss.arm, loss.against, f"{loss.by:.2f}", ", ".join(loss.runs))
            for loss in report.losses
        ]
        lines += ["", "## Where the better arm was worse", ""]
        lines += _table(("input", "arm", "against", "by", "runs"), rows)
    return "\n".join(lines) + "\n"


def csv_of(plan: Plan, trials: Sequence[Trial], entries: Sequence[str]) -> str:
    """Write one CSV line for each trial.

    Foreign text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(TRIAL_COLUMNS)
    for row in trial_rows(plan, trials, entries):
        rows.writerow([_cell(value) for value in dict(row).values()])
    return text.getvalue()


def json_lines_of(plan: Plan, trials: Sequence[Trial], entries: Sequence[str]) -> str:
    """Write one JSON object for each trial; ids are as they were given, money is exact text."""
    return "".join(f"{row.model_dump_json()}\n" for row in trial_rows(plan, trials, entries))


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return int(value)
        case Decimal():
            # In full: `str` writes a small amount as `1E-7`.
            return f"{value:f}"
        case str():
            return harmless(value)
        case _:
            return value


def svg(report: ExperimentReport) -> str | None:
    """Plot each arm's mean best score after each iteration; None if no arm has scores."""
    curves = {arm.name: arm.by_iteration for arm in report.arms if arm.by_iteration}
    if not curves:
        return None
    return line_chart(
        f"{report.name}: mean best score",
        curves,
        across="iteration or try",
        up="score",
        scale=share_scale(),
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return head + ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]


def _plain(text: str) -> str:
    """Escape text for Markdown, as names of inputs are foreign text."""
    flat = " ".join(text.split())
    # The backslash first: later it would double those that stand before other signs.
    for sign in "\\`*_[]<>|#":
        flat = flat.replace(sign, f"\\{sign}")
    return flat
