"""The status of a run: state, scores, spend, questions, and the runs below it."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from rich.console import Group
from rich.text import Text

from perdure.domain.run.child_questions import Question
from perdure.domain.run.child_runs import ChildStatus, is_below
from perdure.domain.run.gates import Gate
from perdure.domain.run.hooks import failure_line
from perdure.domain.run.result import BAD_OUTCOMES, Mark
from perdure.domain.run.status import BudgetStatus, Part, RunStatus
from perdure.interfaces.cli.views.gates import how_to_answer
from perdure.interfaces.cli.views.layout import (
    BAD,
    DIM,
    GOOD,
    LIFECYCLE_STYLES,
    WARN,
    address,
    line,
    pairs,
    stack,
)
from perdure.interfaces.formatting import (
    duration,
    money,
    one_line,
    origin_words,
    plural,
    score,
    sparkline,
    tokens,
)
from perdure.interfaces.run_tree import Below

BAR = 8
LINES_SHOWN = 20


def tree_lines(tree: Sequence[Below], *, limit: int = LINES_SHOWN) -> Text | None:
    """One line for each run below, indented as a tree; None without children."""
    rows = _rows(tree, indent="")
    if not rows:
        return None
    shown = rows[:limit]
    if len(rows) > limit:
        shown.append(line((f"and {len(rows) - limit} more", DIM)))
    return Text("\n").join(shown)


def _rows(tree: Sequence[Below], *, indent: str) -> list[Text]:
    rows: list[Text] = []
    for place, node in enumerate(tree, start=1):
        last = place == len(tree)
        rows.append(line((f"{indent}{'└' if last else '├'} ", DIM)) + _run(node.run))
        rows += _rows(node.below, indent=indent + ("  " if last else "│ "))
    return rows


def _run(run: ChildStatus) -> Text:
    kind = "" if run.kind == "agent" else f" ({run.kind})"
    return line(
        one_line(run.name, 24),
        (kind, DIM),
        " ",
        _state(run),
        f" {_bar(run)} ",
        (_spend(run), DIM),
        "" if run.confidence is None else f" · confidence {score(run.confidence)}",
    )


def _state(run: ChildStatus) -> tuple[str, str]:
    if run.open:
        return ("running", "cyan")
    outcome = run.outcome or "lost"
    if outcome == "accepted":
        return ("✓ accepted", GOOD)
    bad = run.outcome is None or outcome in BAD_OUTCOMES
    return (f"✗ {outcome}" if bad else outcome.replace("_", " "), BAD if bad else WARN)


def spent_share(run: ChildStatus) -> float | None:
    """How much of its limit a run has used, by the tighter of tokens and money; None: no limit."""
    shares = [Decimal(run.tokens) / run.token_limit] if run.token_limit else []
    if run.cost_limit_usd and run.cost_usd is not None:
        shares.append(run.cost_usd / run.cost_limit_usd)
    return float(max(shares)) if shares else None


def _bar(run: ChildStatus) -> str:
    """A bar that is full only at 100 %, and never empty once something was spent."""
    share = spent_share(run)
    if share is None:
        return "·" * BAR
    # Cut, not rounded: 99 % must not look like a limit that is reached.
    filled = min(BAR, int(share * BAR))
    if share > 0 and not filled:
        filled = 1
    return "▰" * filled + "▱" * (BAR - filled)


def _spend(run: ChildStatus) -> str:
    of_tokens = f" of {tokens(run.token_limit)}" if run.token_limit else ""
    of_money = f" of {money(run.cost_limit_usd)}" if run.cost_limit_usd else ""
    return f"{tokens(run.tokens)}{of_tokens} tokens · {money(run.cost_usd)}{of_money}"


PARTS_SHOWN = 24


def status_view(status: RunStatus, *, below: Sequence[Below] = ()) -> Group:
    """The view of `perdure status`; `below` is the tree of the runs below it."""
    rows: list[tuple[str, Text | str | None]] = [
        ("goal", one_line(status.goal, 300)),
        ("label", status.label),
        ("fork of", origin_words(status.forked_from)),
        ("state", state_line(status)),
        ("stage", stage_line(status)),
        ("step", step_line(status)),
        ("trouble", trouble_line(status)),
        ("dispatch", dispatch_line(status)),
        ("unseen", "; ".join(one_line(told, 300) for told in status.unseen)),
        ("hooks", "; ".join(one_line(failure_line(one), 160) for one in status.hook_failures)),
        ("score", score_line(status)),
        ("parts", parts_line(status.parts)),
        ("spend", spend_line(status.budget)),
        ("left", f"{status.budget.fraction_remaining:.0%} of the tightest limit"),
        ("plan", " → ".join(one_line(step, 60) for step in status.plan)),
        ("children", tree_lines(below) or ", ".join(status.children)),
        ("amended", _amended(status)),
        ("said", "; ".join(f"{one.number}: {one_line(one.text, 60)}" for one in status.said)),
        ("refused", "; ".join(one_line(text) for text in status.refused)),
        ("ended", _end(status)),
        ("source", _source(status)),
    ]
    web = address("Web UI", web_address(status))
    questions = (gate_lines(gate, status.id) for gate in status.gates)
    asked_below = (question_line(question) for question in status.questions)
    return stack(headline(status), pairs(rows), web, *questions, *asked_below)


def question_line(question: Question) -> Text:
    """A question of a run below: who asks what, and the command to read and answer it."""
    return line(
        (f"{' › '.join(question.path)} asks: ", "bold magenta"),
        (one_line(question.prompt), ""),
        (f"  → perdure gates {question.run}", "cyan"),
    )


def moved_on(status: RunStatus, now: datetime) -> RunStatus:
    """Advance the shown clock to `now`, as a run's own clock stops between steps."""
    if status.started_at is None or status.phase == "ended":
        return status
    # This host's clock may be behind that of the server, and time does not go back.
    elapsed = max(status.elapsed_s, (now - status.started_at).total_seconds())
    budget = status.budget
    if status.lifecycle == "running" and status.step is not None:
        # Active time is booked when a step ends, so the step in flight is added here.
        worked = (_working_until(status, now) - status.started_at).total_seconds()
        active = budget.active_time_s + max(0.0, min(elapsed, worked) - status.elapsed_s)
        budget = budget.model_copy(update={"active_time_s": active})
    return status.model_copy(update={"elapsed_s": elapsed, "budget": budget})


def _working_until(status: RunStatus, now: datetime) -> datetime:
    """Until when the step in flight works: children that all wait for a person do not."""
    asked = [
        [
            each.opened_at
            for each in status.questions
            if each.run == child or is_below(each.run, child)
        ]
        for child in status.children
    ]
    # Without children the step itself works, and so does a child that asks nobody.
    if not asked or not all(asked):
        return now
    return max(min(times) for times in asked)


def headline(status: RunStatus) -> Text:
    """Id, kind and lifecycle."""
    return line(
        (status.id, "bold"),
        (f"  {status.kind}  ", DIM),
        (status.lifecycle, LIFECYCLE_STYLES[status.lifecycle]),
    )


def dispatch_line(status: RunStatus) -> Text | None:
    """Why no worker takes the run's work; None if all is well."""
    if status.dispatch in {"", "dispatched"}:
        return None
    return line((status.dispatch, DIM if status.dispatch == "pending" else WARN))


def state_line(status: RunStatus) -> Text:
    """Phase, iteration, and elapsed time."""
    limit = f"/{status.iteration_limit}" if status.iteration_limit else ""
    pieces = [status.phase.replace("_", " ")]
    if status.iteration:
        pieces.append(f"iteration {status.iteration}{limit}")
    pieces.append(duration(status.elapsed_s))
    if status.blocked_on and status.blocked_on != "blocked":
        pieces.append(f"blocked on {status.blocked_on.replace('_', ' ')}")
    if status.stop and not status.outcome:
        waits = "" if status.stop == "now" else " after the step in flight"
        pieces.append(f"stopping{waits}")
    return line(" · ".join(pieces))


def stage_line(status: RunStatus) -> Text | None:
    """The current stage of a run of roles."""
    stage = status.stage
    if stage is None:
        return None
    role = f" ({stage.role})" if stage.role != stage.name else ""
    again = f" · attempt {stage.attempt}" if stage.attempt > 1 else ""
    return line(f"{one_line(stage.name)}{role}, {stage.index} of {stage.of}{again}")


def step_line(status: RunStatus) -> Text | None:
    return line(one_line(status.step.what)) if status.step else None


def trouble_line(status: RunStatus) -> Text | None:
    """What blocks the run."""
    return line((one_line(status.trouble, 600), WARN)) if status.trouble else None


def score_line(status: RunStatus) -> Text | None:
    """A sparkline, the newest score and the best."""
    scores = [point.score for point in status.trajectory]
    if not any(value is not None for value in scores):
        return None
    newest = next(value for value in reversed(scores) if value is not None)
    return line((sparkline(scores), GOOD), f" {score(newest)}", (_best(status.best), DIM))


def parts_line(parts: tuple[Part, ...]) -> Text | None:
    """Every part with a mark: green if it passes, red if it fails."""
    if not parts:
        return None
    text = Text()
    for part in parts[:PARTS_SHOWN]:
        mark, style = ("✓", GOOD) if part.passed else ("✗", BAD)
        text.append(f"{mark} {one_line(part.name, 24)}  ", style=style)
    if len(parts) > PARTS_SHOWN:
        text.append(f"and {len(parts) - PARTS_SHOWN} more  ", style=DIM)
    passed = sum(part.passed for part in parts)
    text.append(f"{passed} of {len(parts)}", style=DIM)
    return text


def spend_line(budget: BudgetStatus) -> Text:
    """Tokens, money and calls, each with its limit if it has one."""
    limits = budget.limits
    token_limit = f" of {tokens(limits.tokens)}" if limits.tokens else ""
    cost_limit = f" of {money(limits.cost_usd)}" if limits.cost_usd else ""
    pieces = [
        f"{tokens(budget.tokens)}{token_limit} tokens",
        f"{money(budget.cost_usd)}{cost_limit}",
        plural(budget.model_calls, "model call"),
    ]
    if budget.tool_calls:
        pieces.append(plural(budget.tool_calls, "tool call"))
    pieces.append(f"{duration(budget.active_time_s)} active")
    return line(" · ".join(pieces))


def gate_lines(gate: Gate, run: str) -> Text | None:
    """An open question, and the command to answer it."""
    if not gate.open:
        return None
    question = f"? {gate.name} {gate.kind.replace('_', ' ')}: {gate.prompt.strip()}"
    return line((question, "bold magenta"), "\n", (f"  {how_to_answer(gate, run)}", DIM))


def web_address(status: RunStatus) -> str | None:
    """The address of the run in the Temporal Web UI."""
    return status.links.get("temporal") or next(iter(status.links.values()), None)


def _best(best: Mark | None) -> str:
    if best is None or best.score is None:
        return ""
    return f"  best {score(best.score)} in iteration {best.iteration}"


def _amended(status: RunStatus) -> str:
    count = len(status.amendments)
    return "" if not count else f"{count} time{'s' if count > 1 else ''}"


def _end(status: RunStatus) -> str | None:
    if status.outcome is None:
        # It left no end of its own: the server lost it.
        return status.explanation if status.phase == "ended" else None
    return f"{status.outcome} ({status.reason}): {status.explanation}"


def _source(status: RunStatus) -> str | None:
    if status.source == "run":
        return None
    if status.phase == "ended":
        return "the store: the run is over"
    return f"the store: {status.explanation or 'no worker answered'}"
