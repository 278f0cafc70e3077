"""From what a person typed to a specification: the one place where commands read tasks."""

from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from perdure.domain.run import RefineSpec
from perdure.interfaces.cli.commands.given import Kind
from perdure.interfaces.cli.session import Session
from perdure.interfaces.gateway.facts import Spec
from perdure.interfaces.submission import Flags, Submission, Surroundings, load, load_data
from perdure.interfaces.submission.goals import goal_fields

SHIPPED = files("perdure") / "definitions" / "tasks"
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
        budget: The most that may be spent, in USD.
        model: The model that does the work.
        set_: Any other field as path=value, such as budget.tokens=50000; may be repeated.
    """

    kind: Kind | None = None
    iterate: int | None = None
    quality: float | None = None
    budget: Decimal | None = None
    model: str | None = None
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = ()


def submit(session: Session, task: str, wishes: Wishes | None = None) -> Submission:
    """Read a task file, or take the words as the goal; nothing is started or stored yet."""
    wishes = wishes or Wishes()
    flags = Flags(
        kind=wishes.kind,
        iterate=wishes.iterate,
        quality=wishes.quality,
        budget=wishes.budget,
        model=wishes.model,
        sets=wishes.set_,
    )
    return load(task, flags, surroundings=surroundings(session))


def surroundings(session: Session) -> Surroundings:
    """Where this command line reads files and defaults."""
    context = session.context
    return Surroundings(
        folder=context.folder,
        user_defaults=context.user_defaults,
        default_model=context.default_model,
    )


def shipped_names() -> tuple[str, ...]:
    """The names of the tasks that come with the product."""
    found = (entry.name for entry in SHIPPED.iterdir() if entry.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in found))


def shipped_text(name: str) -> str:
    """A shipped task as it is written."""
    return (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")


def shipped_spec(name: str, *, model: str | None = None) -> Spec:
    """A shipped task as a specification, whatever defaults the user has."""
    data = yaml.safe_load(shipped_text(name))
    around = Surroundings(folder=None, default_model=model or "local")
    return load_data(data, Flags(model=model), surroundings=around).spec


def shipped_refinement(name: str, *, model: str) -> RefineSpec:
    """A shipped task of kind refine."""
    spec = shipped_spec(name, model=model)
    if not isinstance(spec, RefineSpec):
        raise TypeError(f"the task {name} is of kind {spec.kind}")
    return spec


def draft_task(goal: str, *, path: Path) -> str:
    """A task file for a goal, with the checks that the goal states and a judge for the rest."""
    fields = goal_fields(goal, Flags(kind="refine"))
    task = {
        **fields,
        "refine": {"max_iterations": 3, "quality_threshold": 0.8},
        "budget": {"cost_usd": 0.5, "tokens": 100_000},
    }
    body = yaml.safe_dump(task, sort_keys=False, allow_unicode=True, width=88)
    return DRAFT_HEAD.format(name=path.name) + body
