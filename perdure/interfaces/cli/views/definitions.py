"""Lists of ready-made tasks and loops, and how to run one."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.definition_library import BrokenDefinition, StoredDefinition
from perdure.interfaces.cli.views.layout import DIM, GOOD, Listing, line, stack
from perdure.interfaces.definitions import Definition


def definitions_view(
    found: Sequence[Definition], loops: Sequence[StoredDefinition]
) -> RenderableType:
    """One row per task and per loop, then what to type."""
    rows = [(item.name, item.kind, _first_sentence(item.about)) for item in found]
    more = [
        (
            item.name,
            stages_of(item.definition),
            item.origin,
            _first_sentence(item.definition.description),
        )
        for item in loops
    ]
    return stack(
        Listing(("task", "kind", "about"), rows),
        line(("\nsee one work    perdure run NAME --example", DIM)),
        line(""),
        Listing(("loop", "stages", "from", "about"), more),
        line(("* its verdict ends the loop, or begins another iteration", DIM)),
        line(('\nstart a loop    perdure loops start NAME "goal"', DIM)),
        line(("either file     perdure definitions NAME", DIM)),
        line(("a copy to edit  perdure definitions NAME --to FOLDER", DIM)),
    )


def stages_of(definition: LoopDefinition) -> str:
    """The stages of an iteration in one line; `*` marks the one whose verdict counts."""
    gate = definition.review_stage.name if definition.criteria else None
    return " → ".join(f"{one.name}*" if one.name == gate else one.name for one in definition.roles)


def how_to_start(loop: StoredDefinition) -> Iterator[str]:
    """The command that starts a loop, with the parameters that it needs."""
    wanted = [one for one in loop.definition.parameters if one.required]
    given = "".join(f" --param {one.name}=…" for one in wanted)
    yield f'Start it:    perdure loops start {loop.name} "goal"{given}'
    for one in loop.definition.parameters:
        default = "" if one.required else f" (default: {one.default})"
        about = f"  {one.description}" if one.description else ""
        yield f"Parameter:   {one.name}{about}{default}"


def loop_check(loop: LoopDefinition, *, file: str) -> tuple[RenderableType, dict[str, object]]:
    """The result for a valid definition, as a view for people and data for programs."""
    names = ", ".join(one.name for one in loop.parameters)
    rows = [
        line(("✓ ", GOOD), f"{file} is a valid loop definition: {loop.name}"),
        line((f"stages: {stages_of(loop)}", DIM)),
        line((f"ends: {loop.termination_condition.type.replace('_', ' ')}", DIM)),
        *([line((f"criteria, assumed: {loop.criteria}", DIM))] if loop.assumes_criteria else []),
        *([line((f"parameters: {names}", DIM))] if names else []),
    ]
    data: dict[str, object] = {
        "type": "valid",
        "file": file,
        "notes": [],
        "definition": loop.model_dump(mode="json"),
    }
    return stack(*rows), data


def broken_lines(broken: Sequence[BrokenDefinition]) -> Iterator[str]:
    """One line for each file that holds no valid definition, with its first problem."""
    for item in broken:
        first = item.problems[0] if item.problems else "no definition"
        yield f"{item.path} is left out: {first}"


def how_to_run(found: Definition) -> Iterator[str]:
    """The commands to run a task, with its example or with one's own inputs."""
    given = "".join(f" --set context.{name}=file:PATH" for name in found.inputs)
    yield f"See it work: perdure run {found.name} --example"
    yield f"Run it:      perdure run {found.name}{given}"
    if found.options:
        options = ", ".join(f"context.{name}" for name in found.options)
        yield f"May be set:  {options}"


def _first_sentence(text: str) -> str:
    head, dot, _ = text.partition(". ")
    return f"{head}." if dot else text
