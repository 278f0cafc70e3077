"""Ready-made tasks: the list, and each with the fields that start a run."""

from fastapi import APIRouter
from pydantic import ConfigDict, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotFound
from perdure.interfaces.definitions import DEFINITIONS, Definition, definitions
from perdure.interfaces.rest.callers import Reader
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.submission.layers import Fields
from perdure.submission.task_file import read_file

HERE = "."
router = APIRouter(prefix="/api/v1/tasks", tags=["tasks"], route_class=BoundedRoute)


class ReadyTaskLine(FrozenModel):
    """A ready-made task in the list: `inputs` must be given, `options` have a value already.

    A task with `needs_folder` works in the folder that `workspace` names.
    """

    name: str
    kind: str
    about: str
    inputs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    needs_folder: bool = False


class ReadyTask(ReadyTaskLine):
    """One with its fields: the body of a start, once its inputs and its folder are in them."""

    model_config = ConfigDict(defer_build=False)

    fields: dict[str, JsonValue]


class ReadyTasks(FrozenModel):
    """All ready-made tasks, by name."""

    items: tuple[ReadyTaskLine, ...]


@router.get("")
async def list_tasks(caller: Reader) -> ReadyTasks:
    """What `perdure definitions` lists: tasks that need nothing but their inputs."""
    return ReadyTasks(items=tuple(_line(one, _fields(one.name)) for one in definitions()))


@router.get("/{name}")
async def get_task(caller: Reader, name: str) -> ReadyTask:
    """One of them, with the fields of its task file."""
    found = next((one for one in definitions() if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in definitions())
        raise NotFound(f"There is no ready-made task {name!r}.", cure=f"There are: {names}.")
    fields = _fields(name)
    line = _line(found, fields)
    # This is the folder of the server's process, which no caller means: each start names its own.
    left_out = {"about", "workspace"} if line.needs_folder else {"about"}
    given = {key: value for key, value in fields.items() if key not in left_out}
    return ReadyTask(**dict(line), fields=given)


def _fields(name: str) -> Fields:
    return read_file(DEFINITIONS / f"{name}.yaml")


def _line(found: Definition, fields: Fields) -> ReadyTaskLine:
    return ReadyTaskLine(
        name=found.name,
        kind=found.kind,
        about=found.about,
        inputs=found.inputs,
        options=found.options,
        needs_folder=fields.get("workspace") == HERE,
    )
