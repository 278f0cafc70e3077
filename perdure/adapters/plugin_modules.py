"""Loads a user's modules with tools, checks and hooks, by module name or by file."""

import hashlib
import importlib
import os
import sys
import sysconfig
import traceback
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.settings.layers import NAME_A_FILE, PACKAGE_START, is_plugin_file
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.event_log import get_logger
from perdure.extending.foreign_code import contained, named

_log = get_logger(__name__)

CHECK_GROUP = "perdure.checks"
HOOK_GROUP = "perdure.hooks"
TOOL_GROUP = "perdure.tools"
GROUPS = (CHECK_GROUP, HOOK_GROUP, TOOL_GROUP)
MADE = "perdure_plugin_"
OURS = Path(str(files("perdure")))
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


@cache
def installed_plugins(*, group: str) -> EntryPoints:
    """The entry points of a group in all installed packages; read once per process."""
    return entry_points(group=group)


def plugin_module(name: str) -> ModuleType:
    """Load a module once per process.

    A file can import its neighbours; installed packages come first.

    Raises:
        InvalidInput: it does not exist, or does not load; names the line that failed.
    """
    try:
        with contained():
            return _of_file(Path(name)) if is_plugin_file(name) else importlib.import_module(name)
    except Exception as error:
        raise broken_plugin(name, error) from error


def broken_plugin(origin: str, error: BaseException) -> InvalidInput:
    """Why a plugin cannot be used, with the last line of its traceback."""
    cure = "Repair it, uninstall it, or take it out of the setting `plugins`."
    if isinstance(error, ModuleNotFoundError) and error.name == origin:
        cure = f"Name the file, as --plugin ./{origin}.py, or install what holds the module."
    elif isinstance(error, FileNotFoundError):
        cure = NAME_A_FILE
    said = named(error)
    if isinstance(error, SyntaxError):  # its text repeats the place
        said = f"{type(error).__name__}: {error.msg}"
    if isinstance(error, PerdureError):  # of a decorator, in words for people
        said, cure = error.message.rstrip("."), error.cure or cure
    return InvalidInput(
        f"The plugin {origin} cannot be loaded: {without_secrets(said)}{_place(error)}.", cure=cure
    )


def _of_file(path: Path) -> ModuleType:
    path = (path / PACKAGE_START if path.is_dir() else path).absolute()
    package = path.parent if path.name == PACKAGE_START else None
    # With its place, as plugins of two folders may have one name.
    place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    name = f"{MADE}{path.stem if package is None else package.name}_{place}"
    known = sys.modules.get(name)
    if known is not None:
        return known
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    inside = None if package is None else [str(package)]
    spec = spec_from_file_location(name, path, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    # At the end of the path, so that a neighbour cannot replace an installed package.
    beside = (package or path).parent
    if str(beside) not in sys.path:
        sys.path.append(str(beside))
    _tell_of_others(beside, plugin=str(path))
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # Or the next attempt would find the half-loaded module.
        del sys.modules[name]
        raise
    return module


def _tell_of_others(beside: Path, *, plugin: str) -> None:
    """Log the neighbours whose names another folder's modules have: the plugin imports those."""
    for path in sorted(beside.glob("*.py")):
        loaded: object = getattr(sys.modules.get(path.stem), "__file__", None)
        if (
            not isinstance(loaded, str)
            or loaded.startswith(LIBRARIES)
            or Path(loaded).parent == beside
        ):
            continue
        _log.warning(
            "plugin_imports_another_file",
            plugin=plugin,
            file=str(path),
            instead=loaded,
            cure="Rename one of the two files, or make the plugin a package.",
        )


def _place(error: BaseException) -> str:
    """Where the code of the plugin failed, rather than where a library that it called did."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    found = [one for one in frames if "importlib" not in one.filename and one.filename[:1] != "<"]
    theirs = [one for one in found if not Path(one.filename).is_relative_to(OURS)]
    own = [one for one in theirs if not one.filename.startswith(LIBRARIES)]
    if not theirs:
        return ""
    last = (own or theirs)[-1]
    return f" ({Path(last.filename).name}, line {last.lineno}: {without_secrets(last.line or '')})"
