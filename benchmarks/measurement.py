"""One whole measurement: what is asked for, on one server, in one run; and where it is written."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.claims import measure_claims
from benchmarks.conditions import conditions
from benchmarks.growth import Histories, measure_growth
from benchmarks.made_tools import measure_tool_calls
from benchmarks.overhead import measure_overhead
from benchmarks.pages import measure_pages
from benchmarks.report import Report, markdown
from benchmarks.site import site
from benchmarks.tokens import measure_tokens
from perdure.interfaces.svg_chart import line_chart, log_scale

IDS = ("B1", "B2", "B3", "B8", "P1")
MARKDOWN, JSON, CHART = "benchmarks.md", "benchmarks.json", "bytes-per-turn.svg"


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
    keep: Path | None = None


async def measure(plan: Plan, *, on_run: Callable[[str], None]) -> Report:
    """Measure everything in the plan, one after the other.

    Args:
        plan: what to measure.
        on_run: told before each run what is played.

    Raises:
        Disagreement: the sides did not do the same work.
    """
    with _folder(plan.keep) as folder:
        async with site(folder) as place:
            found = Report(conditions=await conditions(place.client))
            if "B1" in plan.only:
                overhead = await measure_overhead(
                    place, turns=plan.turns, pairs=plan.pairs, on_run=on_run
                )
                found = found.model_copy(update={"overhead": overhead})
            if "B2" in plan.only:
                histories = await measure_growth(place, turns=plan.long_turns, on_run=on_run)
                found = found.model_copy(update={"histories": histories})
            if "B3" in plan.only:
                savings = await measure_tokens(place, iterations=plan.iterations, on_run=on_run)
                claimed = await measure_claims(place, on_run=on_run)
                found = found.model_copy(
                    update={
                        "savings": savings,
                        "claims": claimed.claims,
                        "accounts": claimed.accounts,
                    }
                )
            if "B8" in plan.only:
                tool_calls = await measure_tool_calls(
                    place.stores,
                    folder / "programs",
                    calls=plan.calls,
                    pairs=plan.pairs,
                    on_run=on_run,
                )
                found = found.model_copy(update={"tool_calls": tool_calls})
            if "P1" in plan.only:
                pages = await measure_pages(
                    place,
                    iterations=plan.page_iterations,
                    watchers=plan.watchers,
                    seconds=plan.watch_s,
                    on_run=on_run,
                )
                found = found.model_copy(update={"pages": pages})
            return found


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write table, figures and chart; files of an earlier measurement are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {MARKDOWN: markdown(report), JSON: report.model_dump_json(indent=2) + "\n"}
    if report.histories is not None:
        contents[CHART] = chart(report.histories)
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
