"""Turns what a person typed into a specification: the one place where commands read tasks."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.spec import RefineSpec
from perdure.interfaces.cli.commands.parameters import Kind, Limits, limits_of
from perdure.interfaces.cli.session import Session
from perdure.interfaces.definitions import (
    DEFINITIONS,
    EXAMPLE,
    digest,
    example_beside,
    example_folder,
)
from perdure.interfaces.services import Services
from perdure.submission.goals import goal_fields
from perdure.submission.loading import load, load_data
from perdure.submission.packaged_tasks import definition_file
from perdure.submission.types import Flags, Submission, Surroundings, as_workers_see

DRAFT_HEAD = """\
# What is good enough stands under `rubric`: edit it, then look before you pay:
#   perdure validate {name}
#   perdure run --dry-run {name}
"""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What flags say over what the file says.

    Args:
        kind: The kind of loop.
        iterate: Refine in at most this many iterations.
        quality: The score that is good enough, above 0 and at most 1.
        budget: The most that may be spent: USD, or a limit as name=value (tokens=50000);
            may be repeated.
        model: The model that does the work.
        set_: Any other field as path=value, such as budget.tokens=50000; may be repeated.
    """

    kind: Kind | None = None
    iterate: int | None = None
    quality: float | None = None
    budget: Limits = ()
    model: str | None = None
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = ()


async def submit_to(
    session: Session,
    services: Services,
    task: str,
    wishes: Wishes | None = None,
    *,
    example: Path | None = None,
) -> Submission:
    """Read a task with the workers' defaults, so that it means the same as it will when it runs."""
    return await as_workers_see(
        lambda around: load(task, _flags(wishes, example), surroundings=around),
        surroundings(session),
        services.gateway.default_model,
    )


def submit(
    session: Session, task: str, wishes: Wishes | None = None, *, example: Path | None = None
) -> Submission:
    """Read a task file, a ready-made task or a goal in words; nothing is started."""
    return load(task, _flags(wishes, example), surroundings=surroundings(session))


def _flags(wishes: Wishes | None, example: Path | None) -> Flags:
    wishes = wishes or Wishes()
    return Flags(
        kind=wishes.kind,
        iterate=wishes.iterate,
        quality=wishes.quality,
        budget=limits_of(wishes.budget),
        model=wishes.model,
        sets=wishes.set_,
        example=example,
    )


async def find_example(session: Session, task: str) -> Path:
    """The example of a task; that of a ready-made task is copied into the home folder first.

    Raises:
        InvalidInput: the task has none.
    """
    context = session.context
    # Of `os.path`, as a goal in words may be longer than the name of a file.
    if os.path.isfile(context.folder / task):
        return example_beside((context.folder / task).absolute())
    path = definition_file(task, DEFINITIONS)
    if path is None:
        raise InvalidInput(
            f"--example goes with a ready-made task, and {task!r} is none.",
            cure="`perdure definitions` names them.",
        )
    source = example_folder(path.stem)
    # By content: a new version must not change the example of a run that is under way.
    laid_out = context.home / "examples" / f"{path.stem}-{digest(source)}"
    await context.lay_out(source, laid_out)
    return laid_out / EXAMPLE


def surroundings(session: Session) -> Surroundings:
    """Where this command line looks for files and defaults."""
    context = session.context
    return Surroundings(
        folder=context.folder,
        user_defaults=context.user_defaults,
        default_model=context.default_model,
        definitions=DEFINITIONS,
        rubric_problems=context.rubric_problems,
        model_notes=context.model_notes,
        measure=context.measure,
        settings=context.setting_names,
    )


def shipped_refinement(name: str, *, model: str) -> RefineSpec:
    """A ready-made `refine` task as a specification, without the user's defaults."""
    around = Surroundings(folder=None, default_model=model)
    data = yaml.safe_load((DEFINITIONS / f"{name}.yaml").read_text(encoding="utf-8"))
    spec = load_data(data, Flags(model=model), surroundings=around).spec
    if not isinstance(spec, RefineSpec):
        raise TypeError(f"the task {name} is of kind {spec.kind}")
    return spec


def draft_task(goal: str, *, path: Path) -> str:
    """A task file for a goal: checks for what the goal states, and a judge for the rest."""
    fields = goal_fields(goal, Flags(kind="refine"))
    task = {
        **fields,
        "refine": {"max_iterations": 3, "quality_threshold": 0.8},
        "budget": {"cost_usd": 0.5, "tokens": 100_000},
    }
    # In this order, as a person reads on from the goal to what is good enough.
    body = yaml.safe_dump(task, sort_keys=False, allow_unicode=True, width=88)
    return DRAFT_HEAD.format(name=path.name) + body
