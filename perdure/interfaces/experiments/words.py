"""Lines of a report as text, the same on a terminal, in Markdown and on the page."""

from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.thresholds import Estimate, Setting, ThresholdStudy
from perdure.interfaces.experiments.planned import PlannedArm, PlannedExperiment
from perdure.interfaces.experiments.report import ArmFigures, ExperimentReport
from perdure.interfaces.experiments.statistics import Agreement, Interval
from perdure.interfaces.formatting import duration, money, plural, tokens

COLUMNS = ("arm", "score", "95 %", "passed", "tokens", "cost", "time", "calls", "iterations", "")
FIGURES = COLUMNS[1:-1]
ENDINGS = {
    "completed": "all trials have ended",
    "stopped": "somebody stopped it",
    "budget": "its budget does not pay for another run",
    "failed": "it failed",
}
SCORED = {
    "rubric": "by the loop's own rubric",
    "check": "by checks that no loop saw",
    "judge": "by a judge that no loop saw",
    "labels": "against the labels of the inputs",
}
ESTIMATE = "An estimate by the loop's own scores: those recorded, replayed under other settings."


def arm_cells(arm: ArmFigures) -> tuple[str, ...]:
    """A row of the table of arms."""
    score = arm.score
    remarks = [arm.about] if arm.about else []
    remarks += [f"{arm.failed} failed"] if arm.failed else []
    remarks += [f"{arm.stopped} stopped"] if arm.stopped else []
    remarks += [f"{arm.unscored} not scored"] if arm.unscored else []
    remarks += ["no other is as good for less"] if arm.on_frontier else []
    if not arm.trials:
        return (arm.name, *["-"] * len(FIGURES), "; ".join(remarks))
    return (
        arm.name,
        # Where nothing could be scored, the mean of 0 says nothing.
        f"{score.mean:.3f}" if score.count else "-",
        range_words(score),
        f"{arm.passed * 100:.0f} %" if score.count else "-",
        f"{arm.tokens:,.0f}",
        money(arm.cost_usd),
        duration(arm.seconds),
        f"{arm.model_calls:.1f}",
        f"{arm.iterations:.1f}",
        "; ".join(remarks),
    )


def range_words(found: Interval) -> str:
    """`0.41 to 0.62`; `-` where there is no interval."""
    if found.low is None or found.high is None:
        return "-"
    return f"{found.low:.2f} to {found.high:.2f}"


def progress_words(status: ExperimentStatus) -> str:
    """`12 of 60 trials, 4 running, $0.42`."""
    running = f", {status.running} running" if status.running else ""
    spent = money(status.spent_usd)
    limit = f" of {money(status.budget.cost_usd)}" if status.budget.cost_usd else ""
    return f"{status.ended} of {plural(status.trials, 'trial')}{running}, {spent}{limit}"


def state_words(state: str, reason: str) -> str:
    """An experiment's state, and why it ended."""
    why = ENDINGS.get(reason, reason)
    return f"{state}: {why}" if why else state


def resume_command(status: ExperimentStatus) -> str:
    """How to go on with one that ended before all its trials had."""
    limit = ""
    if status.reason == "budget":
        limit = " --cost-usd USD" if status.budget.cost_usd else " --tokens N"
    return f"perdure experiment resume {status.id}{limit}"


def heading_words(report: ExperimentReport) -> str:
    """What was measured, in one line."""
    inputs = plural(report.inputs, "input")
    repeats = f" × {report.repeats} repeats" if report.repeats > 1 else ""
    return (
        f"{report.name}: {inputs}{repeats}, {report.ended} of {report.trials} trials, scored "
        f"{SCORED[report.scored_by]}"
    )


def planned_rows(plan: PlannedExperiment) -> list[tuple[str, str, str]]:
    """A row for each arm of a planned experiment, and its judge: what a run of it may spend."""
    shown = [*plan.arms, *([plan.judge] if plan.judge is not None else [])]
    return [(arm.name, arm.about or "one run", _most(arm)) for arm in shown]


def _most(arm: PlannedArm) -> str:
    limits = [money(arm.most_usd)] if arm.most_usd is not None else []
    limits += [f"{tokens(arm.most_tokens)} tokens"] if arm.most_tokens is not None else []
    return " and ".join(limits) or "unlimited"


def setting_words(setting: Setting) -> str:
    """A setting as fields of a task."""
    words = f"max_iterations {setting.max_iterations}, quality_threshold "
    words += f"{setting.quality_threshold:g}"
    if setting.improvement_threshold:
        words += f", improvement_threshold {setting.improvement_threshold:g}"
    return words


def estimate_cells(one: Estimate, study: ThresholdStudy) -> tuple[str, ...]:
    """A row of the table of settings."""
    mark = "recommended" if one.setting == study.recommended.setting else ""
    cost = money(one.cost_usd)
    words = setting_words(one.setting)
    return (words, f"{one.score:.3f}", f"{one.tokens:,.0f}", cost, f"{one.iterations:.1f}", mark)


ESTIMATE_COLUMNS = ("setting", "score", "tokens", "cost", "iterations", "")


def judge_words(found: Agreement) -> str:
    """How far the loop's own verdict can be trusted."""
    wrong = _share("of wrong outputs were accepted", found.false_accepts)
    right = _share("of right outputs were not", found.false_rejects)
    outputs = plural(found.outputs, "output")
    return (
        f"The loop's verdict agrees with the label on {found.agreement * 100:.0f} % of {outputs}; "
        + ("; ".join(filter(None, (wrong, right))))
    )


def _share(words: str, share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f} % {words}"
