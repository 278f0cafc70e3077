"""The demo: a shipped task, the embedded model, a home folder of its own that goes afterwards."""

import asyncio
import select
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.result import RunResult, exit_code
from perdure.interfaces.cli.best_of_n import Comparison, compare_arms
from perdure.interfaces.cli.commands.load_task import shipped_refinement
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.follow import follow
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.demo import comparison_chart, comparison_table, demo_view
from perdure.interfaces.cli.views.layout import DIM
from perdure.interfaces.formatting import plural, score
from perdure.interfaces.services import Services

TASK = "product-page"
LINGER_S = 30.0
WORK_S = 300.0  # on a busy machine one draft alone can take a minute
MEASURE_S = 600.0  # ample: a busy machine must not decide between the arms


async def demo(
    *,
    seeds: int | None = None,
    plot: Path | None = None,
    home: Path | None = None,
    session: Given,
) -> int:
    """Watch a small model write a product page, checked and improved line by line.

    Args:
        seeds: Repeat it this many times against best-of-n with as many calls, and print a table.
        plot: With --seeds, draw the table into this file as SVG.
        home: Keep services and data in this folder instead of a temporary one.
    """
    if seeds is not None and seeds < 1:
        raise InvalidInput(f"--seeds {seeds} is not a positive number.", cure="Try --seeds 10.")
    if plot is not None and seeds is None:
        raise InvalidInput(f"--plot {plot} needs --seeds.", cure="Try --seeds 10.")
    async with _own_home(session, home) as (own, is_temporary):
        try:
            async with own.connected(start=True, with_worker=True) as services:
                spec = shipped_refinement(TASK, model="local")
                if seeds is not None:
                    measured = await _measure(own, services, _within(spec, MEASURE_S), seeds)
                    _draw(own, measured, plot)
                    return 0
                return await _show(own, services, _within(spec, WORK_S), is_temporary=is_temporary)
        finally:
            session.following = None if is_temporary else own.following
            if is_temporary:
                await own.context.down()


async def _show(
    session: Session, services: Services, spec: RefineSpec, *, is_temporary: bool
) -> int:
    started = await services.gateway.start(spec)
    ended = await follow(session, services, started)
    lingers = is_temporary and session.output.is_terminal and sys.stdin.isatty()
    # Nobody can open a page that goes with this command.
    web = services.gateway.web_url(started) if lingers or not is_temporary else None
    session.output.show(demo_view(ended, web_url=web), ended)
    if lingers:
        session.output.note(
            f"The Web UI stays until you press Enter, {LINGER_S:.0f} s at most.", style=DIM
        )
        await asyncio.to_thread(select.select, [sys.stdin], [], [], LINGER_S)
    return exit_code(ended.outcome)


async def _measure(
    session: Session, services: Services, spec: RefineSpec, seeds: int
) -> Comparison:
    """Run both arms `seeds` times, one seed after the other."""
    single = _single_try(spec)
    pairs: list[tuple[RunResult, list[RunResult]]] = []
    with session.output.working(f"seed 1 of {seeds}") as progress:
        for number in range(1, seeds + 1):
            loop = await _finished(services, spec)
            calls = range(max(1, loop.spend.model_calls))
            tries = [await _finished(services, single) for _ in calls]
            pairs.append((loop, tries))
            progress(_told(number, seeds, loop, tries))
    comparison = compare_arms(pairs, iterations=spec.refine.max_iterations)
    session.output.show(comparison_table(comparison), comparison)
    return comparison


def _draw(session: Session, comparison: Comparison, plot: Path | None) -> None:
    if plot is None:
        return
    target = session.context.folder / plot
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(comparison_chart(comparison), encoding="utf-8")
    session.output.note(f"drawn: {target}")


def _within(spec: RefineSpec, seconds: float) -> RefineSpec:
    """The task with another limit of working time."""
    budget = spec.budget.model_copy(update={"active_time": seconds})
    return spec.model_copy(update={"budget": budget})


def _single_try(spec: RefineSpec) -> RefineSpec:
    """The same task with one iteration: what best-of-n draws from."""
    once = spec.refine.model_copy(update={"max_iterations": 1, "min_iterations": 1})
    return spec.model_copy(update={"refine": once})


async def _finished(services: Services, spec: RefineSpec) -> RunResult:
    return await services.gateway.result(await services.gateway.start(spec), wait=True)


def _told(number: int, seeds: int, loop: RunResult, tries: list[RunResult]) -> str:
    reached = score(loop.best.score if loop.best else None)
    other = max((item.best.score or 0.0 for item in tries if item.best), default=0.0)
    calls = plural(len(tries), "call")
    return f"seed {number} of {seeds}: loop {reached}, best of n {score(other)} ({calls} each)"


@asynccontextmanager
async def _own_home(session: Session, home: Path | None) -> AsyncGenerator[tuple[Session, bool]]:
    """The session over the folder that was named, or over a temporary one."""
    if home is not None:
        yield replace(session, context=session.context.in_home(home.absolute())), False
        return
    if session.context.named_home:
        yield session, False
        return
    folder = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    try:
        yield replace(session, context=session.context.in_home(folder)), True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
