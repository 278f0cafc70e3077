"""Experiments on a terminal: the list, the status, the report."""

from collections.abc import Sequence

from rich.console import RenderableType

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.cli.views.layout import DIM, WARN, heading, line, pairs, stack, table
from perdure.interfaces.experiments.planned import PlannedExperiment
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.interfaces.experiments.words import (
    COLUMNS,
    ESTIMATE,
    ESTIMATE_COLUMNS,
    FIGURES,
    arm_cells,
    estimate_cells,
    heading_words,
    judge_words,
    planned_rows,
    progress_words,
    resume_command,
    state_words,
)
from perdure.interfaces.formatting import money, one_line, plural, tokens

SHOWN_LOSSES = 10


def experiments_view(found: Sequence[ExperimentStatus]) -> RenderableType:
    """All of them, the newest first."""
    if not found:
        return line("No experiment has been started. Write one: perdure experiment --help")
    rows = [
        (one.id, one_line(one.name, 40), one.state, progress_words(one), ", ".join(one.arms))
        for one in found
        if one.trials
    ]
    return stack(
        table(("id", "name", "state", "progress", "arms"), rows, whole=("id",)) if rows else None,
        # Without trials it is a row that cannot be read; its problem says so.
        *(line((f"! {one.problem}", WARN)) for one in found if not one.trials),
    )


def status_view(status: ExperimentStatus) -> RenderableType:
    limits = [money(status.budget.cost_usd)] if status.budget.cost_usd else []
    limits += [f"{tokens(status.budget.tokens)} tokens"] if status.budget.tokens else []
    return pairs([
        ("id", status.id),
        ("state", state_words(status.state, status.reason)),
        ("progress", progress_words(status)),
        ("arms", ", ".join(status.arms)),
        ("inputs", f"{status.inputs:,}" + (f" × {status.repeats}" if status.repeats > 1 else "")),
        ("budget", " and ".join(limits) or "unlimited"),
        ("problem", status.problem),
        ("go on", resume_command(status) if status.cut_short else ""),
    ])  # fmt: skip


def plan_view(plan: PlannedExperiment) -> RenderableType:
    """What an experiment would run, and what it could cost."""
    most = plan.most_usd
    limit = f"All runs together may spend {money(most)}." if most else "No budget limits them."
    return stack(
        heading(f"{plan.name}: {plural(plan.inputs, 'input')}, {plural(plan.trials, 'trial')}"),
        table(("arm", "tries", "each run at most"), planned_rows(plan)),
        line((f"{limit} Nothing was started.", DIM)),
    )


def report_view(report: ExperimentReport) -> RenderableType:
    """The full report, with the warnings first."""
    return stack(
        *(line((f"! {warning}", WARN)) for warning in report.warnings),
        heading(heading_words(report)),
        table(COLUMNS, [arm_cells(arm) for arm in report.arms], right=FIGURES),
        "",
        *(line(pair.sentence) for pair in report.pairs),
        None if report.judge is None else line(judge_words(report.judge)),
        *(part for study in report.thresholds for part in (
            "",
            heading(f"When {study.arm} should stop"),
            table(
                ESTIMATE_COLUMNS,
                [estimate_cells(one, study) for one in study.estimates],
                right=ESTIMATE_COLUMNS[1:-1],
            ),
            line((ESTIMATE, DIM)),
        )),
        _losses(report),
    )  # fmt: skip


def _losses(report: ExperimentReport) -> RenderableType | None:
    if not report.losses:
        return None
    rows = [
        (one_line(loss.entry, 40), loss.arm, loss.against, f"{loss.by:.2f}", ", ".join(loss.runs))
        for loss in report.losses[:SHOWN_LOSSES]
    ]
    more = len(report.losses) - len(rows)
    return stack(
        "",
        heading("Where the better arm was worse"),
        table(("input", "arm", "against", "by", "its runs"), rows, right=("by",)),
        line((f"and {more} more; --format csv has all trials", DIM)) if more > 0 else None,
    )
