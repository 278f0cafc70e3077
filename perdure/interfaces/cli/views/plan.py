"""The view of a dry run: what would happen, the most that it could cost, who is ready."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.run.gates import DEFAULT_PREFIX, WAIT, GateSettings
from perdure.gateway.types import QueueState
from perdure.interfaces.cli.views.layout import (
    BAD,
    DIM,
    GOOD,
    WARN,
    heading,
    line,
    pairs,
    stack,
    table,
)
from perdure.interfaces.formatting import duration, model_name, money, one_line
from perdure.interfaces.plan import PlannedModel, RunPlan
from perdure.interfaces.planned_stages import PlannedStage
from perdure.interfaces.worst_case import WorstCase

NAMES_SHOWN = 8


def plan_view(plan: RunPlan) -> RenderableType:
    facts: list[tuple[str, Text | str | None]] = [
        ("kind", plan.kind),
        ("goal", one_line(plan.goal, 300)),
        ("label", plan.label),
        ("workspace", plan.workspace or "an empty scratch folder"),
        *_inputs(plan),
        ("tools", plan.access),
        *((planned.role, _model(planned)) for planned in plan.models),
        ("iterations", f"at most {plan.iterations}: {' → '.join(plan.steps)}"),
        ("ends when", plan.ends),
        ("workers", plan.crew),
        ("checks", _names(plan.checks)),
        ("judged", _names(plan.judged)),
        ("hooks", _names(plan.hooks)),
        ("at most", _limits(plan.worst)),
        ("worst case", plan.worst.sentence),
        ("unanswered", _unanswered(plan.gates)),
    ]
    warnings = [line(("! ", WARN), text) for text in plan.warnings]
    return stack(
        heading("Plan (nothing was started)"),
        pairs(facts),
        _stages(plan),
        *warnings,
        _queues(plan),
        _verdict(plan),
    )


def _inputs(plan: RunPlan) -> Iterator[tuple[str, str]]:
    for number, given in enumerate(plan.inputs):
        name, what = one_line(given.name, 40), one_line(given.what, 200)
        yield ("inputs" if number == 0 else "", f"{name}: {what}")


def _stages(plan: RunPlan) -> RenderableType | None:
    if not plan.stages:
        return None
    rows = [_stage(stage, depth) for stage, depth in _with_depth(plan.stages)]
    return table(("stage", "access", "model", ""), rows, whole=("stage", "access"))


def _with_depth(
    stages: Sequence[PlannedStage], depth: int = 0
) -> Iterator[tuple[PlannedStage, int]]:
    for stage in stages:
        yield stage, depth
        yield from _with_depth(stage.stages, depth + 1)


def _stage(stage: PlannedStage, depth: int) -> tuple[str, str, str, str]:
    told = (
        f"runs the loop {stage.loop}" if stage.loop else "",
        f"role {stage.role}" if stage.role not in {stage.name, stage.loop} else "",
        "its verdict counts" if stage.gate else "",
        f"at most {stage.share:.0%} of the tokens" if stage.share is not None else "",
    )
    chain = " → ".join(model_name(name) for name in stage.models)
    name = f"{'  ' * depth}{one_line(stage.name, 40)}"
    return name, stage.access or "", chain, ", ".join(part for part in told if part)


def _model(planned: PlannedModel) -> str:
    chain = " → ".join(model_name(name) for name in planned.chain)
    card = planned.card
    if card is None:
        return f"{chain} (unknown here)"
    if card.price is None:
        return f"{chain} (price unknown)"
    price = card.price
    return f"{chain} (${price.input_per_million} in, ${price.output_per_million} out per million)"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(name, 40) for name in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{len(names)}: {shown} and {more} more" if more > 0 else shown


def _limits(worst: WorstCase) -> str:
    pieces = [
        f"{worst.tokens:,} tokens" if worst.tokens else "",
        money(worst.cost_usd) if worst.cost_usd else "",
        f"{duration(worst.active_time_s)} of work" if worst.active_time_s else "",
        f"{duration(worst.wall_time_s)} in all" if worst.wall_time_s else "",
        f"{worst.model_calls} model calls" if worst.model_calls else "",
        f"{worst.tool_calls} tool calls" if worst.tool_calls else "",
    ]
    one = f"; one full call {money(worst.one_call_usd)}" if worst.one_call_usd else ""
    return (", ".join(piece for piece in pieces if piece) or "no limit") + one


def _unanswered(gates: GateSettings) -> str:
    if gates.timeout_s is None or gates.on_expiry == WAIT:
        return "a question waits until somebody answers, or the run's time is up"
    after = f"after {duration(gates.timeout_s)}"
    match gates.on_expiry:
        case "safe":
            return f"{after} a call is denied, and any other question ends the run with its best"
        case "end":
            return f"{after} a question ends the run with its best"
        case policy:
            choice = policy.removeprefix(DEFAULT_PREFIX)
            return f"{after} a call is denied, and any other question is answered {choice!r}"


def _queues(plan: RunPlan) -> RenderableType | None:
    if not plan.queues:
        return None
    return table(("", "queue", "serves", "worker"), [_queue(item) for item in plan.queues])


def _queue(item: QueueState) -> tuple[Text, str, str, str]:
    mark = Text("✓", style=GOOD) if item.served else Text("✗", style=BAD)
    found = f"version {item.version}" if item.ready else one_line(item.cure, 200)
    if item.busy:
        found = item.found
    return mark, item.queue, item.serves, found


def _verdict(plan: RunPlan) -> Text:
    if plan.unknown is not None:
        return line(("readiness unknown: ", WARN), (plan.unknown, DIM))
    if plan.ready:
        return line(("ready to run", GOOD))
    if plan.lacking:
        return line(("not ready: ", BAD), ("; ".join(plan.lacking), DIM))
    return line(("not ready: ", BAD), ("a worker is missing (see above)", DIM))
