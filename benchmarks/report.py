"""The result of one measurement, and the tables it is shown in."""

from collections.abc import Iterator, Sequence

from benchmarks.at_once import AtOnce
from benchmarks.beside_peers import BesidePeers
from benchmarks.claims import Account, Claim
from benchmarks.conditions import Conditions
from benchmarks.control import Control
from benchmarks.durability_tables import durability_bars, durability_tables
from benchmarks.fairness import Fairness
from benchmarks.growth import Growth, Histories
from benchmarks.made_tools import AT_ONCE, ToolCalls
from benchmarks.memory import Memory
from benchmarks.overhead import Overhead
from benchmarks.pages import Pages
from benchmarks.recovery import Recoveries
from benchmarks.replaying import Replays
from benchmarks.tables import Table, at_most, spread
from benchmarks.tokens import Savings
from perdure.domain.foundation.base import FrozenModel

MOST_WALL, MOST_CPU = 1.25, 1.8
MOST_DRIFT = 0.02
MOST_BYTES_TO_DELTA, MOST_EVENTS_TO_DELTA = 1.3, 1.05
MOST_BYTES, MOST_EVENTS = 4 * 1024, 13
MOST_CALL = 1.2
# The API is one process: at one core it is full, and watchers wait.
MOST_VIEW_BYTES, MOST_RUN_MS, MOST_API_CORES = 100 * 1024, 500, 0.9
MOST_LIST = 1.25
MOST_ANSWER_MS = 1_000
MOST_WORKER_CORES = 0.02
MOST_INPUT = {3: 0.75, 5: 0.55, 10: 0.35, 20: 0.20}


class Report(FrozenModel):
    """Everything that one measurement found."""

    conditions: Conditions
    overhead: Overhead | None = None
    histories: Histories | None = None
    savings: Savings | None = None
    claims: tuple[Claim, ...] = ()
    accounts: tuple[Account, ...] = ()
    tool_calls: ToolCalls | None = None
    pages: Pages | None = None
    beside_peers: BesidePeers | None = None
    missing_peers: tuple[str, ...] = ()
    replays: Replays | None = None
    at_once: tuple[AtOnce, ...] = ()
    memory: Memory | None = None
    recoveries: Recoveries | None = None
    control: Control | None = None
    fairness: tuple[Fairness, ...] = ()


def tables(report: Report) -> Iterator[Table]:
    """The bars first, then the figures behind them."""
    yield Table("Against the bars", ("figure", "found", "bar", "kept"), tuple(_bars(report)))
    if report.overhead is not None:
        yield _overhead(report.overhead)
    if report.histories is not None:
        yield _histories(report.histories)
    if report.savings is not None:
        yield _savings(report.savings)
    if report.claims:
        yield _claims(report.claims)
    if report.accounts:
        yield _accounts(report.accounts)
    if report.tool_calls is not None:
        yield _tool_calls(report.tool_calls)
    if report.pages is not None:
        yield _pages(report.pages)
    yield from durability_tables(report)
    yield _conditions(report.conditions)


def markdown(report: Report) -> str:
    """All tables as a Markdown page."""
    parts = ["# Benchmarks"]
    for table in tables(report):
        lines = [
            _line(table.columns),
            _line(["---", *["---:"] * (len(table.columns) - 1)]),
            *(_line(row) for row in table.rows),
        ]
        parts += [f"## {table.title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bars(report: Report) -> Iterator[tuple[str, ...]]:
    if (overhead := report.overhead) is not None:
        busy = report.conditions.busy
        for against in overhead.ratios:
            name = f"B1 a turn, to {against.baseline}"
            yield at_most(f"{name}: wall", against.turn.median, MOST_WALL, unjudged=busy)
            yield at_most(f"{name}: worker CPU", against.cpu.median, MOST_CPU, unjudged=busy)
    if (histories := report.histories) is not None:
        ours = histories.of("perdure")
        drift = abs(ours.late_to_early - 1)
        yield at_most(f"B2 drift of bytes up to turn {histories.turns}", drift, MOST_DRIFT)
        yield at_most("B2 bytes, to delta", histories.bytes_to_delta, MOST_BYTES_TO_DELTA)
        yield at_most("B2 events, to delta", histories.events_to_delta, MOST_EVENTS_TO_DELTA)
        yield at_most("B2 bytes a turn, rolls included", ours.whole_bytes, MOST_BYTES)
        yield at_most("B2 events a turn, rolls included", ours.whole_events, MOST_EVENTS)
    yield from durability_bars(report, busy=report.conditions.busy)
    if report.savings is not None:
        for saving in report.savings.savings:
            most = MOST_INPUT[saving.iterations]
            name = f"B3 input tokens at n = {saving.iterations}, to naive"
            yield at_most(name, saving.input_ratio, most)
    if report.tool_calls is not None:
        for found in report.tool_calls.ratios:
            name = f"B8 {found.box}, to {found.against}"
            busy = report.conditions.busy
            yield at_most(name, found.call.median, MOST_CALL, unjudged=busy)
    if (pages := report.pages) is not None:
        busy = report.conditions.busy
        yield at_most("P1 bytes of a first view", pages.first_bytes, MOST_VIEW_BYTES)
        name = f"P1 ms, page of a run of {pages.iterations} iterations"
        yield at_most(name, pages.run_ms, MOST_RUN_MS, unjudged=busy)
        slower = pages.list_ms / pages.few_ms
        name = f"P1 list of {pages.listed_runs:,} runs, to {pages.few_runs}"
        yield at_most(name, slower, MOST_LIST, unjudged=busy)
        name = "P1 ms, from an answer to the run's page that shows it"
        yield at_most(name, pages.answer_ms, MOST_ANSWER_MS, unjudged=busy)
        watched = f"P1 {pages.watchers} watchers of one run"
        yield at_most(f"{watched}: API cores", pages.api_cores, MOST_API_CORES, unjudged=busy)
        added = pages.worker_cores - pages.idle_worker_cores
        yield at_most(f"{watched}: worker cores more", added, MOST_WORKER_CORES, unjudged=busy)


def _overhead(result: Overhead) -> Table:
    costs = tuple(
        (
            cost.side,
            f"{cost.turn_ms:.1f}",
            f"{cost.run_ms:.1f}",
            f"{cost.cpu_ms:.1f}",
            " + ".join(str(count) for count in cost.activities),
        )
        for cost in result.costs
    )
    ratios = tuple(
        (
            f"perdure / {against.baseline}",
            spread(against.turn),
            spread(against.run),
            spread(against.cpu),
            f"{against.turn.pairs} pairs",
        )
        for against in result.ratios
    )
    columns = ("side", "turn ms", "run ms a turn", "worker CPU ms a turn", "activities")
    title = f"B1: {result.turns} turns; medians, ratios as median (least to most)"
    return Table(title, columns, (*costs, *ratios))


def _histories(result: Histories) -> Table:
    columns = (
        "side",
        "bytes early",
        "bytes late",
        "late / early",
        "bytes mean",
        "events early",
        "events late",
        "slope bytes",
        "executions",
    )
    title = f"B2: history a turn, around turn 10 and at turn {result.turns}"
    return Table(title, columns, tuple(_growth_row(growth) for growth in result.growths))


def _growth_row(growth: Growth) -> tuple[str, ...]:
    return (
        growth.side,
        f"{growth.early_bytes:,.0f}",
        f"{growth.late_bytes:,.0f}",
        f"{growth.late_to_early:.3f}",
        f"{growth.whole_bytes:,.0f}",
        f"{growth.early_events:.2f}",
        f"{growth.late_events:.2f}",
        f"{growth.slope_bytes:+.2f}",
        str(growth.executions),
    )


def _savings(result: Savings) -> Table:
    rows = tuple(
        (
            f"n = {saving.iterations}",
            f"{saving.input_ratio:.3f}",
            f"{saving.cost_ratio:.3f}",
            f"{saving.cached_ratio:.3f}",
        )
        for saving in result.savings
    )
    columns = ("refine / naive", "input tokens", "cost", "cost, both with prompt cache")
    return Table("B3: refine against full resend", columns, rows)


def _claims(claims: Sequence[Claim]) -> Table:
    """What is saved, beside what is claimed."""
    rows = tuple((claim.name, _range(claim), f"{claim.found:.0%}") for claim in claims)
    return Table("B3: the claims, input tokens saved", ("saving", "claimed", "found"), rows)


def _accounts(accounts: Sequence[Account]) -> Table:
    """What a loop costs, one saving after the other; the first line has none."""
    rows = tuple(
        (steps[0].name, *(f"${step.usd:.2f}" for step in steps))
        for steps in zip(*(one.steps for one in accounts), strict=True)
    )
    columns = ("what is sent", *(f"{one.iterations} iterations" for one in accounts))
    return Table("B3: where the money goes", columns, rows)


def _tool_calls(result: ToolCalls) -> Table:
    costs = tuple(
        (cost.box, f"{cost.call_ms:.3f}", f"{cost.calls_per_s:,.0f}") for cost in result.costs
    )
    ratios = tuple(
        (f"{found.box} / {found.against}", spread(found.call), f"{found.call.pairs} pairs")
        for found in result.ratios
    )
    columns = ("side", "call ms", f"calls a second, {AT_ONCE} at once")
    title = f"B8: {result.calls} calls; medians, ratios as median (least to most)"
    return Table(title, columns, (*costs, *ratios))


def _pages(found: Pages) -> Table:
    rows = (
        ("bytes of the first view", f"{found.first_bytes:,}"),
        ("requests to draw the first view", str(found.first_requests)),
        (f"page of a run of {found.iterations} iterations", f"{found.run_ms:.0f} ms"),
        (f"first page of {found.few_runs:,} runs", f"{found.few_ms:.0f} ms"),
        (f"first page of {found.listed_runs:,} runs", f"{found.list_ms:.0f} ms"),
        (f"an answer on the page of its run, {found.answers} times", f"{found.answer_ms:.0f} ms"),
        (f"API, {found.watchers} watchers", f"{found.api_cores:.2f} cores"),
        ("API, nobody watching", f"{found.idle_api_cores:.2f} cores"),
        (f"worker, {found.watchers} watchers", f"{found.worker_cores:.3f} cores"),
        ("worker, nobody watching", f"{found.idle_worker_cores:.3f} cores"),
        (f"changed parts sent in {found.watched_s:.0f} s", f"{found.parts:,}"),
    )
    return Table("P1: the page", ("what", "found"), rows)


def _range(claim: Claim) -> str:
    least, most = f"{claim.least:.0%}", f"{claim.most:.0%}"
    return least if least == most else f"{least} to {most}"


def _conditions(found: Conditions) -> Table:
    rows = (
        ("at", found.at.isoformat(timespec="seconds")),
        ("python", found.python),
        ("Temporal server", found.server),
        *found.packages.items(),
        *(("server setting", rate) for rate in found.poll_rates),
        *(("SQLite pragma", pragma) for pragma in found.pragmas),
        *((f"worker {name}", value) for name, value in found.worker.items()),
        ("CPUs", str(found.cpus)),
        ("load before", ", ".join(f"{value:.2f}" for value in found.load)),
    )
    return Table("Conditions", ("what", "value"), rows)
