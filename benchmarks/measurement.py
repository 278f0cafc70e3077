"""One whole measurement: what is asked for, on one server, in one run; and where it is written."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.at_once import AtOnce, measure_at_once
from benchmarks.beside_peers import measure_beside_peers
from benchmarks.claims import measure_claims
from benchmarks.conditions import conditions
from benchmarks.control import measure_control
from benchmarks.fairness import FEW_SLOTS, Fairness, measure_fairness
from benchmarks.growth import Histories, measure_growth
from benchmarks.made_tools import measure_tool_calls
from benchmarks.memory import WARM_LOOPS, measure_memory
from benchmarks.overhead import measure_overhead
from benchmarks.pages import measure_pages
from benchmarks.peer import PEERS, Peer, built
from benchmarks.recovery import measure_recovery
from benchmarks.replaying import measure_replay
from benchmarks.report import Report, markdown
from benchmarks.site import Site, site
from benchmarks.tokens import Savings, measure_tokens, shares
from perdure.interfaces.svg_chart import line_chart, log_scale, share_scale

IDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "P1", "P2")
MARKDOWN, JSON, CHART = "benchmarks.md", "benchmarks.json", "bytes-per-turn.svg"
CURVE = "token-savings.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure, and how long.

    Args:
        only: the ids to measure.
        pairs: interleaved pairs of B1 and B8 after the warm-up.
        turns: turns of one run of B1.
        long_turns: turns of one run of B2.
        iterations: iterations of the refine run of B3.
        calls: calls of one side of B8, in each pair.
        page_iterations: of the run whose page is timed in P1.
        watchers: of one run in P1.
        watch_s: for how long they watch.
        peer_turns: turns of one run of P2.
        peer_pairs: rounds of P2 after the warm-up.
        replay_turns: turns of the run that B4 replays.
        crowds: how many loops run at once in B5, and for how many turns each.
        crowd_pairs: rounds of B5.
        memory_loops: that wait in each group of B6.
        early_turns: after which the first group waits.
        late_turns: after which the second group waits.
        tenant_loops: open loops of the other tenant in B9.
        tenant_runs: runs of B9, alone and beside them.
        heartbeat_s: after which a silent model call counts as lost in B7.
        keep: a new folder for everything that is made, logs included; None: a temporary one.
    """

    only: tuple[str, ...] = IDS
    pairs: int = 5
    turns: int = 30
    long_turns: int = 200
    iterations: int = 20
    calls: int = 40
    page_iterations: int = 200
    watchers: int = 200
    watch_s: float = 20
    peer_turns: int = 60
    peer_pairs: int = 5
    replay_turns: int = 300
    crowds: tuple[tuple[int, int], ...] = ((10, 10), (50, 4), (200, 2))
    crowd_pairs: int = 3
    memory_loops: int = 25
    early_turns: int = 50
    late_turns: int = 100
    tenant_loops: int = 500
    tenant_runs: int = 5
    heartbeat_s: float = 2
    keep: Path | None = None


# For a busy machine: every figure, each from fewer and shorter runs. The longest history that a
# run of any length leaves is reached in 170 turns.
QUICK = Plan(
    pairs=2,
    turns=15,
    long_turns=60,
    calls=10,
    page_iterations=50,
    watchers=50,
    watch_s=10,
    peer_turns=20,
    peer_pairs=2,
    replay_turns=170,
    crowds=((10, 4), (50, 2), (200, 1)),
    crowd_pairs=1,
    memory_loops=10,
    early_turns=20,
    late_turns=30,
    tenant_loops=150,
    tenant_runs=3,
)


def _unheard(report: Report) -> None:
    """Nobody wants to know before the end."""


async def measure(
    plan: Plan, *, on_run: Callable[[str], None], on_part: Callable[[Report], object] = _unheard
) -> Report:
    """Measure everything in the plan, one after the other.

    Args:
        plan: what to measure.
        on_run: told before each run what is played.
        on_part: told after each figure what is known so far, should the rest be broken off.

    Raises:
        Disagreement: the sides did not do the same work.
    """
    peers = tuple(built())
    with _folder(plan.keep) as folder:
        async with site(folder, peers=peers if "P2" in plan.only else ()) as place:
            found = Report(
                conditions=await conditions(place.client),
                missing_peers=tuple(peer.title for peer in PEERS if peer not in peers),
            )
            for parts in (
                _side_by_side(place, plan, peers, on_run),
                _ours(place, plan, folder, on_run),
            ):
                async for part in parts:
                    found = found.model_copy(update=part)
                    on_part(found)
        async for part in _apart(plan, folder, peers, on_run):
            found = found.model_copy(update=part)
            on_part(found)
        return found


# Fields of the report.
Part = dict[str, object]


async def _side_by_side(
    place: Site, plan: Plan, peers: Sequence[Peer], on_run: Callable[[str], None]
) -> AsyncGenerator[Part]:
    """The product beside hand-written loops and peers."""
    if "B1" in plan.only:
        overhead = await measure_overhead(place, turns=plan.turns, pairs=plan.pairs, on_run=on_run)
        yield {"overhead": overhead}
    if "P2" in plan.only:
        beside = await measure_beside_peers(
            place, peers=peers, turns=plan.peer_turns, pairs=plan.peer_pairs, on_run=on_run
        )
        yield {"beside_peers": beside}
    if "B2" in plan.only:
        yield {"histories": await measure_growth(place, turns=plan.long_turns, on_run=on_run)}
    if "B4" in plan.only:
        replays = await measure_replay(
            place, turns=plan.replay_turns, pairs=plan.pairs, on_run=on_run
        )
        yield {"replays": replays}
    if "B5" in plan.only:
        crowds: list[AtOnce] = []
        for loops, turns in plan.crowds:
            crowds.append(
                await measure_at_once(
                    place, loops=loops, turns=turns, pairs=plan.crowd_pairs, on_run=on_run
                )
            )
            yield {"at_once": tuple(crowds)}


async def _ours(
    place: Site, plan: Plan, folder: Path, on_run: Callable[[str], None]
) -> AsyncGenerator[Part]:
    """What no hand-written loop has: savings, made tools, pages."""
    if "B3" in plan.only:
        yield {"savings": await measure_tokens(place, iterations=plan.iterations, on_run=on_run)}
        claimed = await measure_claims(place, on_run=on_run)
        yield {"claims": claimed.claims, "accounts": claimed.accounts}
    if "B8" in plan.only:
        tool_calls = await measure_tool_calls(
            place.stores, folder / "programs", calls=plan.calls, pairs=plan.pairs, on_run=on_run
        )
        yield {"tool_calls": tool_calls}
    if "P1" in plan.only:
        pages = await measure_pages(
            place,
            iterations=plan.page_iterations,
            watchers=plan.watchers,
            seconds=plan.watch_s,
            on_run=on_run,
        )
        yield {"pages": pages}


async def _apart(
    plan: Plan, folder: Path, peers: Sequence[Peer], on_run: Callable[[str], None]
) -> AsyncGenerator[Part]:
    """What needs workers of its own: with more slots, or to be killed."""
    if "B6" in plan.only:
        slots = 2 * (2 * plan.memory_loops + WARM_LOOPS)
        async with site(folder / "memory", activities=slots) as place:
            memory = await measure_memory(
                place,
                loops=plan.memory_loops,
                early=plan.early_turns,
                late=plan.late_turns,
                on_run=on_run,
            )
        yield {"memory": memory}
    if "B9" in plan.only:
        found: list[Fairness] = []
        for slots in (None, FEW_SLOTS):
            async with site(folder / f"fairness-{slots}", activities=slots) as place:
                one = await measure_fairness(
                    place, loops=plan.tenant_loops, runs=plan.tenant_runs, on_run=on_run
                )
            found.append(one)
        yield {"fairness": tuple(found)}
    if "B7" in plan.only:
        async with site(
            folder / "recovery", peers=peers, heartbeat_s=plan.heartbeat_s, cuttable=True
        ) as place:
            yield {"control": await measure_control(place, pairs=plan.pairs, on_run=on_run)}
            yield {"recoveries": await measure_recovery(place, peers=peers, on_run=on_run)}


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write table, figures and chart; files of an earlier measurement are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {MARKDOWN: markdown(report), JSON: report.model_dump_json(indent=2) + "\n"}
    if report.histories is not None:
        contents[CHART] = chart(report.histories)
    if report.savings is not None:
        contents[CURVE] = savings_chart(report.savings)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return tuple(folder / name for name in contents)


@contextmanager
def _folder(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        yield keep.absolute()
        return
    with TemporaryDirectory(prefix="perdure-bench-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def chart(histories: Histories) -> str:
    """Bytes of history by turn, one line a side."""
    lines = {growth.side: growth.sizes for growth in histories.growths}
    scale = log_scale([size for sizes in lines.values() for size in sizes])
    return line_chart(
        "History of one turn", lines, across="turn", up="bytes (log scale)", scale=scale
    )


def savings_chart(savings: Savings) -> str:
    """What a loop has sent and cost after each iteration, as shares of the naive one."""
    return line_chart(
        "A loop beside one that resends everything",
        shares(savings),
        across="iteration",
        up="share of what the other one takes",
        scale=share_scale(),
    )
