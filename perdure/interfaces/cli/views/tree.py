"""The tree of runs below a run: how each stands, and how much of its share is spent."""

from collections.abc import Sequence
from decimal import Decimal

from rich.text import Text

from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.result import BAD_OUTCOMES
from perdure.interfaces.cli.views.formatting import money, one_line, score, tokens
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line
from perdure.interfaces.run_tree import Below

BAR = 8
LINES_SHOWN = 20


def tree_lines(tree: Sequence[Below], *, limit: int = LINES_SHOWN) -> Text | None:
    """One line a run below the others; None for a run without children."""
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
    """How much of its share a run has used, by the tighter of tokens and money; None: no limit."""
    shares = [Decimal(run.tokens) / run.token_limit] if run.token_limit else []
    if run.cost_limit_usd and run.cost_usd is not None:
        shares.append(run.cost_usd / run.cost_limit_usd)
    return float(max(shares)) if shares else None


def _bar(run: ChildStatus) -> str:
    """Full only from the whole on; something spent is never an empty bar."""
    share = spent_share(run)
    if share is None:
        return "·" * BAR
    filled = min(BAR, int(share * BAR))
    if share > 0 and not filled:
        filled = 1
    return "▰" * filled + "▱" * (BAR - filled)


def _spend(run: ChildStatus) -> str:
    of_tokens = f" of {tokens(run.token_limit)}" if run.token_limit else ""
    of_money = f" of {money(run.cost_limit_usd)}" if run.cost_limit_usd else ""
    return f"{tokens(run.tokens)}{of_tokens} tokens · {money(run.cost_usd)}{of_money}"
