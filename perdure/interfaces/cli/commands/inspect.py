"""Looking: status, history, costs, result, list, gates, explain."""

from datetime import UTC, date
from typing import Annotated

from cyclopts import Parameter
from rich.console import RenderableType

from perdure.domain.budget.spend_report import ALL_CALLS, SpendFilter, SpendKey
from perdure.domain.evaluation.outcomes import Lifecycle, Outcome
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.control import Phase
from perdure.domain.run.result import exit_code
from perdure.gateway.types import RunFilter, RunPage
from perdure.interfaces.cli.commands.parameters import Given, Kind, Limit, OneRun
from perdure.interfaces.cli.follow import show_result, wait_for_end
from perdure.interfaces.cli.session import LAST, Session
from perdure.interfaces.cli.views.costs import costs_view, spending_view
from perdure.interfaces.cli.views.gates import gates_view
from perdure.interfaces.cli.views.history import history_view
from perdure.interfaces.cli.views.layout import heading, line, stack
from perdure.interfaces.cli.views.runs import LISTED, runs_view
from perdure.interfaces.cli.views.status import moved_on, status_view
from perdure.interfaces.explanation import Explanation, explain_run
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.run_tree import in_full, open_gates, tree_below
from perdure.interfaces.spending import csv_text, everything, period_of, spending


def explanation_view(explanation: Explanation) -> RenderableType:
    """Three questions and their answers."""
    verdict = f"{explanation.outcome}/{explanation.reason}"
    levers = explanation.would_change or ("Nothing that this run's records show.",)
    return stack(
        heading(f"Why it stopped ({verdict})"),
        line(explanation.why, indent=2),
        heading("What would have changed it"),
        *(line(f"• {lever}", indent=2) for lever in levers),
        heading(f"What the next {explanation.outlook.usd} USD would likely buy"),
        line(explanation.outlook.sentence, indent=2),
    )


async def status(run: OneRun = LAST, /, *, session: Given) -> None:
    """Show the state of a run.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        found = await services.gateway.status(await services.gateway.resolve(run))
        below = () if session.output.as_json else await tree_below(services.gateway, found)
        shown = status_view(moved_on(found, session.context.now()), below=below)
        session.output.show(shown, found)


async def history(run: OneRun = LAST, /, *, session: Given) -> None:
    """Show the iterations of a run, with scores and findings.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        records = await services.gateway.records(resolved)
        best = await best_scored(services.gateway, resolved)
        data = {"type": "history", "run": resolved, "iterations": list(records)}
        session.output.show(history_view(records, best), data)


async def best_scored(gateway: RunGateway, run: str) -> int | None:
    """The iteration that the run takes for its best; None without a score."""
    # By the run: after a change of the rubric, records keep scores by the one before.
    best = (await gateway.status(run)).best
    return None if best is None or best.score is None else best.iteration


async def result(run: OneRun = LAST, /, *, wait: bool = False, session: Given) -> int:
    """Show the result of a run.

    Args:
        run: A run id, a unique beginning of one, or @last.
        wait: Wait until the run has ended.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        found = (
            await wait_for_end(session, services, resolved)
            if wait
            else await services.gateway.result(resolved, wait=False)
        )
        await show_result(session, services, found)
    return exit_code(found.outcome)


async def list_runs(
    *,
    status: Lifecycle | None = None,
    kind: Kind | None = None,
    label: str | None = None,
    outcome: Outcome | None = None,
    phase: Phase | None = None,
    root: str | None = None,
    limit: Limit = LISTED,
    cursor: str | None = None,
    session: Given,
) -> None:
    """List runs, newest first.

    Args:
        status: Only runs in this state.
        kind: Only runs of this kind.
        label: Only runs with this label.
        outcome: Only runs with this outcome.
        phase: Only runs in this phase.
        root: Only this run and all runs below it.
        limit: How many at most.
        cursor: Continue after an earlier page.
    """
    wanted = RunFilter(
        status=status,
        kind=kind,
        label=label,
        outcome=outcome,
        phase=phase,
        root=root,
        limit=limit,
        cursor=cursor,
    )
    async with session.connected() as services:
        page = await _pages(services.gateway, wanted)
        session.output.show(runs_view(page, session.context.now(), wanted), page)


async def _pages(gateway: RunGateway, wanted: RunFilter) -> RunPage:
    """As many pages as the limit takes."""
    page = await gateway.list(wanted)
    brought = page
    # An empty page with a cursor ends it: few runs fit, and a search of them all may take long.
    while page.cursor is not None and brought.runs and len(page.runs) < wanted.limit:
        left = {"limit": wanted.limit - len(page.runs), "cursor": page.cursor}
        brought = following = await gateway.list(wanted.model_copy(update=left))
        page = following.model_copy(
            update={"runs": (*page.runs, *following.runs), "note": page.note}
        )
    return page


async def gates(
    run: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    full: bool = False,
    session: Given,
) -> None:
    """List the questions that wait for a person, and how to answer them.

    Args:
        run: A run id, a unique beginning of one, or @last. Default: all runs.
        full: Show the full text of each question.
    """
    async with session.connected() as services:
        found = await open_gates(services.gateway, run)
        if full:
            found = await in_full(found, services.blobs)
        session.output.show(gates_view(found, session.context.now()), found)


async def costs(
    run: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    by: SpendKey | None = None,
    since: date | None = None,
    until: date | None = None,
    model: str | None = None,
    kind: Kind | None = None,
    label: str | None = None,
    owner: str | None = None,
    csv: bool = False,
    session: Given,
) -> None:
    """Show the spend of one run or all runs, by phase, model and day.

    With any option, show what all runs spent in a period.

    Args:
        run: A run id, a unique beginning of one, or @last. Default: all runs.
        by: The lines of the table of all runs: days, kinds, labels, owners, models or runs.
            Default: day.
        since: The first day of the period, in UTC, such as 2026-01-31. Default: 29 days before.
        until: The last day of the period, in UTC. Default: today.
        model: Only calls of this model.
        kind: Only runs of this kind, with all below them.
        label: Only runs with this label, with all below them and what was learned from them.
        owner: Only runs of this owner: who started them, their experiment or their schedule.
        csv: Write the table as CSV, with exact figures.
    """
    if csv and session.output.as_json:
        raise InvalidInput("--csv and --json contradict each other.", cure="Give one of them.")
    only = SpendFilter(model=model, kind=kind, label=label, owner=owner)
    if by or since or until or csv or only != ALL_CALLS:
        if run:
            raise InvalidInput(
                "The options of costs are for all runs together.",
                cure="Leave out the run, or the options.",
            )
        await _all_costs(session, by or "day", since, until, only, as_csv=csv)
        return
    async with session.connected() as services:
        if run:
            report = await services.gateway.costs(await services.gateway.resolve(run))
        else:
            report = await everything(services.ledger())
        session.output.show(costs_view(report), report)


async def _all_costs(
    session: Session,
    by: SpendKey,
    since: date | None,
    until: date | None,
    only: SpendFilter,
    *,
    as_csv: bool,
) -> None:
    try:
        # The books have days in UTC, and here it may be another day.
        period = period_of(since, until, today=session.context.now().astimezone(UTC).date())
    except ValueError as error:
        raise InvalidInput(f"--since: {error}.", cure="Give an earlier day.") from None
    async with session.connected() as services:
        table = await spending(services.ledger(), by, period, only)
    if as_csv:
        session.output.raw(csv_text(table))
    else:
        session.output.show(spending_view(table), table)


async def explain(run: OneRun = LAST, /, *, session: Given) -> None:
    """Explain why a run stopped, and what would have changed that.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        ended = await services.gateway.result(resolved, wait=False)
        records = await services.gateway.records(resolved)
        explanation = explain_run(ended, records or ended.iterations)
        session.output.show(explanation_view(explanation), explanation)
