"""The demo: a shipped task, the embedded model, and a temporary home folder."""

import asyncio
import select
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import run_id
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.result import exit_code
from perdure.extending.own_thread import in_own_thread
from perdure.interfaces.cli.commands.load_task import shipped_refinement
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.follow import follow
from perdure.interfaces.cli.follow_experiment import follow_experiment
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.demo import demo_view
from perdure.interfaces.cli.views.experiments import report_view
from perdure.interfaces.cli.views.layout import DIM
from perdure.interfaces.cli.written_files import require_place, write_file
from perdure.interfaces.experiments.export import svg
from perdure.interfaces.experiments.reading import read_report
from perdure.interfaces.services import Services
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

TASK = "product-page"
MODEL = "local"
ARMS: dict[str, JsonValue] = {
    "loop": {},
    "single": {"refine.max_iterations": 1},
    "same_calls": {"best_of": "same_calls"},
    "same_tokens": {"best_of": "same_tokens"},
}
LINGER_S = 30.0
WORK_S = 300.0  # on a busy machine a single draft can take a minute
MEASURE_S = 600.0  # generous: a slow machine must not decide which arm wins


async def demo(
    *, seeds: int | None = None, plot: Path | None = None, home: Path | None = None, session: Given
) -> int:
    """Watch a small model write a product page, checked and improved line by line.

    Args:
        seeds: Measure it this many times against one try and independent tries at equal spend.
        plot: With --seeds, draw the mean score after each iteration into this file as SVG.
        home: Keep services and data in this folder instead of a temporary one.
    """
    if seeds is not None and seeds < 1:
        raise InvalidInput(f"--seeds {seeds} is not a positive number.", cure="Try --seeds 10.")
    if plot is not None and seeds is None:
        raise InvalidInput(f"--plot {plot} needs --seeds.", cure="Try --seeds 10.")
    if plot is not None:
        plot = session.context.folder / plot
        await asyncio.to_thread(require_place, plot, option="--plot")
    async with _own_home(session, home) as (own, is_temporary):
        try:
            async with own.connected(start=True, with_worker=True) as services:
                spec = shipped_refinement(TASK, model=MODEL)
                if seeds is not None:
                    await _measure(own, services, _within(spec, MEASURE_S), seeds, plot)
                    return 0
                return await _show(own, services, _within(spec, WORK_S), is_temporary=is_temporary)
        finally:
            # Nothing goes on in a home that is removed, so no hint how to watch it.
            session.following = None if is_temporary else own.following
            if is_temporary:
                # Before its folder is removed, which the services would still write to.
                await own.context.down()


async def _show(
    session: Session, services: Services, spec: RefineSpec, *, is_temporary: bool
) -> int:
    started = await services.gateway.start(spec, by=session.context.user)
    ended = await follow(session, services, started)
    lingers = is_temporary and session.output.is_terminal and sys.stdin.isatty()
    # A temporary installation takes its Web UI with it when it ends, so no link to it is shown.
    web = services.gateway.web_url(started) if lingers or not is_temporary else None
    session.output.show(demo_view(ended, web_url=web), ended)
    if lingers:
        session.output.note(
            f"The Web UI stays until you press Enter, {LINGER_S:.0f} s at most.", style=DIM
        )
        # In a thread of its own: Ctrl-C would wait for one of the pool until the time is up.
        await in_own_thread(lambda: select.select([sys.stdin], [], [], LINGER_S))
    return exit_code(ended.outcome)


async def _measure(
    session: Session, services: Services, spec: RefineSpec, seeds: int, plot: Path | None
) -> None:
    """Run one experiment: the loop, one try, and independent tries for its calls and tokens."""
    made = experiment_of(
        {
            "name": TASK,
            "task": spec.model_dump(mode="json", by_alias=True),
            "inputs": [{"id": f"seed {number}"} for number in range(1, seeds + 1)],
            "arms": ARMS,
            "parallel": 1,  # one at a time: the model needs the processor for itself
        },
        surroundings=Surroundings(folder=None, default_model=MODEL),
    )
    experiments = services.experiments()
    id = await experiments.start(
        made.plan, made.entries, id=run_id("experiment", TASK, uuid.uuid4().hex)
    )
    await follow_experiment(session, services, id)
    found = (await read_report(experiments, id)).report
    session.output.show(report_view(found), found)
    drawn = svg(found)
    if plot is None:
        return
    if drawn is None:
        session.output.warn(f"No trial has a score, so {plot} was not drawn.")
        return
    await asyncio.to_thread(write_file, plot, drawn.encode(), option="--plot", force=True)
    session.output.note(f"drawn: {plot}")


def _within(spec: RefineSpec, seconds: float) -> RefineSpec:
    """The task with another limit of active time."""
    budget = spec.budget.model_copy(update={"active_time": seconds})
    return spec.model_copy(update={"budget": budget})


@asynccontextmanager
async def _own_home(session: Session, home: Path | None) -> AsyncGenerator[tuple[Session, bool]]:
    """The session in the given home folder or the user's; else in a temporary one (True)."""
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
