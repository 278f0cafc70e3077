"""Fork a run: start a new one from an iteration of another, with changed settings."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from perdure.interfaces.cli.commands.load_task import surroundings
from perdure.interfaces.cli.commands.parameters import Given, Limits, OneRun, limits_of
from perdure.interfaces.cli.commands.run import follow_started
from perdure.submission.loading import revise, store
from perdure.submission.types import Flags


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is other than in the run that is forked.

    Args:
        goal: Another goal.
        iterate: Most iterations, including those before the fork.
        quality: The score that is good enough, above 0 and at most 1.
        budget: The most that the fork may spend, apart from the first run: USD, or a limit as
            name=value (tokens=50000); may be repeated.
        model: The model that does the work.
        label: Another label.
        set_: Any other field as path=value, such as refine.patience=3; may be repeated.
    """

    goal: str | None = None
    iterate: int | None = None
    quality: float | None = None
    budget: Limits = ()
    model: str | None = None
    label: str | None = None
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = ()


async def fork(
    run: OneRun,
    /,
    *,
    from_iteration: int,
    changes: Changes | None = None,
    detach: bool = False,
    id: str | None = None,
    session: Given,
) -> int:
    """Start a new run from an iteration of another, with changed settings, and follow it.

    Args:
        run: A run id, a unique beginning of one, or @last.
        from_iteration: The iteration to continue from; `perdure history` lists them.
        detach: Print the id and leave; `perdure watch` follows later.
        id: The new run's id. Default: a readable one is made.
    """
    changed = changes or Changes()
    flags = Flags(
        iterate=changed.iterate,
        quality=changed.quality,
        budget=limits_of(changed.budget),
        model=changed.model,
        sets=changed.set_,
    )
    async with session.connected(start=True) as services:
        gateway = services.gateway
        resolved = await gateway.resolve(run)
        submission = revise(
            await gateway.fork_spec(resolved, from_iteration),
            flags,
            surroundings=surroundings(session),
            goal=changed.goal,
            label=changed.label,
        )
        spec = await store(submission, services.blobs)
        for note in submission.notes:
            session.output.note(note)
        started = await gateway.fork(
            resolved, from_iteration, spec, run_id=id, by=session.context.user
        )
        return await follow_started(session, services, started, detach=detach)
