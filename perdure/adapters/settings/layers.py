"""The layers of settings files: the home folder's, and above it the working folder's."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from warnings import catch_warnings, simplefilter

from perdure.adapters.settings.files import FILE, HOUSES, SettingsFile, is_trusted, read_settings
from perdure.adapters.settings.secret_references import FILE as FILE_REFERENCE
from perdure.adapters.settings.working_folder import expanded
from perdure.domain.foundation.errors import InvalidInput

PLUGINS = "plugins"
PACKAGE_START = "__init__.py"
NAME_A_FILE = (
    "Name a file that exists; a relative one is looked for where the command is given, or beside "
    "the `perdure.yaml` that names it."
)
REPAIR_IT = "Repair it, or take it out of the setting `plugins`."
# Settings whose values are paths.
PLACES = frozenset({"mcp_file", "sandbox_paths"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The files that a process uses; the folder's overrides the home's."""

    home: SettingsFile | None
    folder: SettingsFile | None = None

    @property
    def values(self) -> dict[str, object]:
        """All settings of the files; plugins add up."""
        whole: dict[str, object] = {}
        for layer in self.files:
            read = {name: _placed(name, value, layer) for name, value in layer.values.items()}
            plugins = (*names_in(whole.get(PLUGINS)), *names_in(read.get(PLUGINS)))
            whole |= read | ({PLUGINS: plugins} if plugins else {})
        # `null` in the folder's file removes a setting of the home's.
        return {name: value for name, value in whole.items() if value is not None}

    @property
    def files(self) -> list[SettingsFile]:
        """The files that exist, the lowest layer first."""
        return [one for one in (self.home, self.folder) if one is not None]

    @property
    def of_home(self) -> frozenset[str]:
        """The settings of the home folder's file, which all services read."""
        return frozenset(self.home.values) if self.home else frozenset()

    def source(self, name: str) -> Path | None:
        """The file that a setting comes from."""
        found = [layer.path for layer in self.files if layer.values.get(name) is not None]
        return found[-1] if found else None


def layers(home: Path, folder: Path | None, known: frozenset[str]) -> Layers:
    """The files of a home and of a working folder.

    Raises:
        InvalidInput: a file is wrong, or the folder's sets something that needs trust and has none.
    """
    below = read_settings(home / FILE, known)
    # By where they really are: a home behind a link is no folder of somebody else.
    if folder is None or os.path.realpath(folder) == os.path.realpath(home):
        return Layers(home=below)
    here = read_settings(folder.absolute() / FILE, known)
    if here is not None and here.guarded and not is_trusted(home, here):
        raise InvalidInput(
            f"The file {here.path} sets {', '.join(sorted(here.guarded))}, which may run programs "
            "or move keys, and nobody on this machine has said that it may.",
            cure="Look at it, then run `perdure config --trust`, or take these lines out.",
        )
    return Layers(home=below, folder=here)


def plugin_place(name: str, folder: Path) -> str:
    """A plugin by its absolute path if it is a file, or a module only found in the folder.

    A relative path would mean another file to services, which start in another folder.
    """
    if is_plugin_file(name):
        return str((folder / expanded(name)).absolute())
    if not name.isidentifier() or find_spec(name) is not None:
        return name
    beside = (folder / f"{name}.py", folder / name / "__init__.py")
    return next((str(path.absolute()) for path in beside if path.is_file()), name)


def is_plugin_file(name: str) -> bool:
    """Whether the name of a plugin is a file, or the folder of a package."""
    return name.endswith(".py") or "/" in name


def require_plugin_files(plugins: Iterable[str]) -> None:
    """Require that the files among these plugins exist and are Python.

    Whether they load, only a worker can say, after most of a minute and a restart of all services.

    Raises:
        InvalidInput: one is missing, or does not parse.
    """
    for place in (Path(name) for name in plugins if is_plugin_file(name)):
        file = place / PACKAGE_START if place.is_dir() else place
        if not file.is_file():
            raise InvalidInput(
                f"The plugin {place} cannot be loaded: there is no such file.", cure=NAME_A_FILE
            )
        _require_python(place, file)


def _require_python(plugin: Path, file: Path) -> None:
    try:
        with catch_warnings():
            simplefilter("ignore")  # the worker says them, once
            # `dont_inherit`: a `from __future__` of this module must not change how it is read.
            compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except OSError:
        return  # the services may run as another user; the worker says what it cannot read
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidInput(
            f"The plugin {plugin} cannot be loaded: {type(error).__name__}: {said} "
            f"({file.name}{where}).",
            cure=REPAIR_IT,
        ) from None


def names_in(value: object) -> Sequence[str]:
    """The names in a setting that is a list, or words separated by commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return [str(part) for part in value]
    return []


def variables_of(name: str) -> list[str]:
    """The environment variables of a setting that are set."""
    long = f"PERDURE_{name.upper()}"
    known = (long, name.upper()) if name.startswith(HOUSES) else (long,)
    return [variable for variable in known if variable in os.environ]


def _placed(name: str, value: object, layer: SettingsFile) -> object:
    """The value with absolute paths; relative ones in a file start at its own folder."""
    folder = layer.path.parent
    if name == PLUGINS and isinstance(value, str | list):
        return [plugin_place(one, folder) for one in names_in(value)]
    if name in PLACES and isinstance(value, list):
        return [_path(one, folder) for one in names_in(value)]
    if name in PLACES and isinstance(value, str):
        return ",".join(_path(one, folder) for one in names_in(value))
    return _referring(value, folder)


def _referring(value: object, folder: Path) -> object:
    """The value with absolute paths in `file:` references, also inside lists and mappings."""
    match value:
        case str() if value.startswith(FILE_REFERENCE):
            return f"{FILE_REFERENCE}{_path(value.removeprefix(FILE_REFERENCE), folder)}"
        case list():
            return [_referring(one, folder) for one in value]
        case dict():
            return {name: _referring(one, folder) for name, one in value.items()}
        case _:
            return value


def _path(text: str, folder: Path) -> str:
    return str(folder / expanded(text))
