"""The end of a run: output, reason, cost, learnings, and what to do next."""

from dataclasses import dataclass
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.text import Text

from perdure.domain.evaluation.outcomes import retry_helps
from perdure.domain.foundation.errors import NotAllowed, NotFound, ServiceUnavailable
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.run.child_runs import is_child
from perdure.domain.run.hooks import failure_line
from perdure.domain.run.result import BAD_OUTCOMES, RunResult, Savings, SpendReport
from perdure.interfaces.cli.views.layout import (
    BAD,
    DIM,
    GOOD,
    WARN,
    address,
    heading,
    line,
    pairs,
    stack,
)
from perdure.interfaces.formatting import (
    cure_of,
    duration,
    model_name,
    money,
    one_line,
    origin_words,
    place_of,
    plural,
    score,
    short_ref,
    sparkline,
    tokens,
    tools_made_words,
)
from perdure.interfaces.services import Services

LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Learned:
    """How many learnings a run left, and what its learning run says.

    `count` is None while the learning run is at work.
    """

    told: str
    count: int | None = None


async def find_learned(services: Services, result: RunResult) -> Learned | None:
    """What was learned from an ended run; None if no learning run was started."""
    if not result.learnings_started:
        return None
    learner = learn_run_id(result.id)
    try:
        ended = await services.gateway.result(learner, wait=False)
    except (NotAllowed, NotFound):
        return Learned(f"continues in a separate run: perdure watch {learner}")
    except ServiceUnavailable:
        # Only the server has its end, and the result must not wait for it.
        return Learned("not known, as no server answers now")
    entries = await services.memory.list(kinds=("learning",), limit=LOOKED_AT)
    count = sum(any(origin.run == result.id for origin in item.origins) for item in entries)
    # Its explanation says that the learning run went well, which would mislead after a failed run.
    said = ended.output if ended.outcome == "accepted" else None
    return Learned(said or ended.explanation, count)


FINDINGS_SHOWN = 8
FILE = "file"
_KINDS = {"tree": "all files", "patch": "patch"}


def result_view(
    result: RunResult, *, web_url: str | None = None, learned: Learned | None = None
) -> Group:
    """The output first, then the facts about it."""
    facts: list[tuple[str, Text | str | None]] = [
        ("run", result.id),
        ("fork of", origin_words(result.forked_from)),
        ("why", f"{result.explanation} ({result.outcome}/{result.reason})"),
        ("score", _scores(result)),
        ("spend", spend_words(result.spend)),
        ("unconfirmed", unconfirmed_words(result.spend)),
        ("saved", saved_words(result.savings)),
        ("learned", learned.told if learned else None),
        ("tools made", tools_made_words(result.tools_created, result.tool_metrics)),
        ("models", ", ".join(model_name(name) for name in result.models_used)),
        ("limit", result.exhausted.figures if result.exhausted else None),
        ("files", _files(result)),
        ("artifacts", _artifacts(result)),
        ("not stored", "; ".join(one_line(text, 200) for text in result.unsaved_files)),
        ("unread", "; ".join(one_line(text) for text in result.unread_input)),
        ("hooks", "; ".join(one_line(failure_line(one), 200) for one in result.hook_failures)),
        ("error", _error(result)),
    ]
    # As wide as the labels of the pairs below, so that all addresses begin in one column.
    width = max(len(label) for label, value in facts if value)
    return stack(
        _output(result),
        done_line(result, learned=learned),
        pairs(facts),
        _findings(result),
        address("Web UI".ljust(width), web_url),
        _next(result, width),
    )


def _error(result: RunResult) -> str | None:
    """The error, unless the explanation already contains it."""
    # Explanations of failures quote the error, often without its full stop.
    if not result.error or result.error.rstrip(".") in result.explanation:
        return None
    return one_line(result.error, 500)


def done_line(result: RunResult, *, learned: Learned | None = None) -> Text:
    """`[done] 2 iterations, 38k tokens, $0.32, 2 learnings saved · quality met  ▆█`."""
    count = result.iteration_count or len(result.iterations)
    told = [plural(count, "iteration"), f"{tokens(result.spend.tokens)} tokens"]
    told.append(money(result.spend.cost_usd))
    if learned is not None and learned.count:
        told.append(f"{plural(learned.count, 'learning')} saved")
    style = BAD if result.outcome in BAD_OUTCOMES else GOOD
    scores = [record.score for record in result.iterations]
    bars = sparkline(scores) if any(value is not None for value in scores) else ""
    return line(
        ("[done]", f"bold {style}"),
        " " + ", ".join(told),
        (_ending(result), style),
        (f"  {bars}" if bars else "", GOOD),
    )


def spend_words(spend: SpendReport) -> str:
    """Tokens, money, calls and times in words."""
    pieces = [
        f"{spend.tokens:,} tokens",
        f"{spend.usage.output_tokens:,} written" if spend.usage.output_tokens else "",
        money(spend.cost_usd),
        plural(spend.model_calls, "model call"),
        plural(spend.tool_calls, "tool call") if spend.tool_calls else "",
        f"{duration(spend.active_time_s)} active of {duration(spend.wall_time_s)}",
    ]
    return " · ".join(piece for piece in pieces if piece)


def unconfirmed_words(spend: SpendReport) -> str:
    """The spend that is only an estimate; empty if there is none."""
    tokens_lost = spend.unconfirmed.get("tokens")
    if not isinstance(tokens_lost, int) or not tokens_lost:
        return ""
    cost = spend.unconfirmed.get("cost_usd")
    paid = f", {money(Decimal(cost))}" if isinstance(cost, str) else ""
    return f"{tokens_lost:,} tokens{paid} of it: calls that were cut off, at their estimate"


def saved_words(savings: Savings) -> str:
    """What was saved compared with a loop that resends everything; empty if nothing."""
    kept = savings.naive_input_tokens - savings.input_tokens
    pieces: list[str] = []
    if kept > 0:
        share = kept / savings.naive_input_tokens
        pieces.append(
            f"{tokens(kept)} input tokens ({share * 100:.0f} % of a loop that resends all)"
        )
    if savings.evaluations_skipped:
        pieces.append(plural(savings.evaluations_skipped, "evaluation"))
    if savings.judge_calls_saved:
        pieces.append(plural(savings.judge_calls_saved, "judge call"))
    return ", ".join(pieces)


def _ending(result: RunResult) -> str:
    if result.outcome in BAD_OUTCOMES:
        return f" · {result.outcome.replace('_', ' ')}"
    if result.reason == "text_answer":
        return " · answered" + (" · cut off" if result.truncated else "")
    if result.quality_met:
        return " · quality met" + (" · cut off" if result.truncated else "")
    if not result.partial:
        return " · best kept"
    return " · partial result" if _has_work(result) else " · nothing to show"


def _has_work(result: RunResult) -> bool:
    return bool(result.output or result.output_ref or result.best or result.artifacts)


def _scores(result: RunResult) -> str | None:
    if result.best is None or result.best.score is None:
        return None
    return f"{score(result.best.score)} in iteration {result.best.iteration}"


def _files(result: RunResult) -> str | None:
    """The paths of the files that a manager's workers were to write."""
    return ", ".join(one_line(item.ref) for item in result.artifacts if item.kind == FILE) or None


def _artifacts(result: RunResult) -> str | None:
    kept = [
        f"{_KINDS.get(item.kind, item.kind)} {short_ref(item.ref)}"
        for item in result.artifacts
        if item.kind != FILE
    ]
    return ", ".join(kept) or None


def _output(result: RunResult) -> RenderableType | None:
    if result.output is None:
        where = f"; read it with `perdure artifact {result.id} {result.output_ref}`"
        told = f"no output inline{where}" if result.output_ref else "no output"
        return line((told, DIM), "\n")
    return Text(result.output.rstrip("\n") + "\n")


def _findings(result: RunResult) -> RenderableType | None:
    if not result.open_findings:
        return None
    checked = {
        name
        for record in result.iterations
        for name, item in record.dimensions.items()
        if item.source == "check"
    }
    rows = [
        line(
            ("  ✗ ", WARN),
            f"{_of(item, 'dimension')}: {one_line(_of(item, 'title'))}{place_of(item)}",
            (cure_of(item, checked=_of(item, "dimension") in checked), DIM),
        )
        for item in result.open_findings[:FINDINGS_SHOWN]
    ]
    more = len(result.open_findings) - FINDINGS_SHOWN
    rest = line((f"  and {more} more: perdure history {result.id}", DIM)) if more > 0 else None
    return stack(heading("still open"), *rows, rest)


def _next(result: RunResult, width: int) -> Text:
    shown = f"perdure explain {result.id}"
    if retry_helps(result.outcome, result.reason, result.error) and not is_child(result.id):
        shown += f", perdure retry {result.id}"
    if any(item.kind == "patch" for item in result.artifacts):
        shown = f"perdure diff {result.id}, perdure apply {result.id}, {shown}"
    return line((f"{'next'.ljust(max(width, 6))}  {shown}", DIM))


def _of(finding: object, name: str) -> str:
    value = finding.get(name) if isinstance(finding, dict) else None
    return value if isinstance(value, str) else ""
