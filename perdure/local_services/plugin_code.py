"""The code of plugins, by digest: a worker that runs has loaded what was there when it began.

Who edits a plugin and runs a task again would otherwise run the old code, and not be told.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from perdure.adapters.settings.layers import is_plugin_file

CODE_OF = "the code of "
# A plugin is a few files. More come from a folder that holds a whole project.
MOST_FILES = 500
# By the text: to import a plugin would run its code in each command, and parsing one that is
# being edited would fail.
_IMPORTS = re.compile(r"^\s*(?:from\s+(\w+)[\w.]*\s+import|import\s+([\w., \t]+))", re.MULTILINE)


def code_digests(plugins: Iterable[str], digest: Callable[[bytes], str]) -> dict[str, str]:
    """A digest for each plugin, and for each installed package that brings some by entry point."""
    from perdure.adapters.plugin_modules import GROUPS, installed_plugins  # see `embedded`

    pointed = {point.module for group in GROUPS for point in installed_plugins(group=group)}
    # Whole packages: to find a module inside of one, Python would have to import the package.
    packages = {name.partition(".")[0] for name in pointed}
    files = {name: _files(name) for name in (*plugins, *sorted(packages))}
    return {
        f"{CODE_OF}{name}": digest(b"\0".join(_contents(found)))
        for name, found in files.items()
        if found is not None
    }


def _files(plugin: str) -> list[Path] | None:
    """The files of a plugin; None for a module that this process cannot find."""
    if is_plugin_file(plugin):
        return files_of(Path(plugin))
    try:
        # The first name only: to find a module inside a package, Python would import that here.
        spec = find_spec(plugin.partition(".")[0])
    except ValueError:  # a module that something else than an import has made
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        return [file for place in spec.submodule_search_locations for file in _inside(Path(place))]
    return [Path(spec.origin)] if spec.has_location and spec.origin else None


def _contents(files: Iterable[Path]) -> Iterator[bytes]:
    for file in files:
        with suppress(OSError):  # one that is missing or cannot be read is told where it is loaded
            yield str(file).encode(errors="surrogateescape")
            yield file.read_bytes()


def files_of(plugin: Path) -> list[Path]:
    """The files of a plugin that is a file: its own, and those beside it that they import."""
    start = _inside(plugin) if plugin.is_dir() else [plugin]
    beside = plugin.parent
    found, waiting = list[Path](), start
    while waiting and len(found) < MOST_FILES:
        file = waiting.pop(0)
        if file in found:
            continue
        found.append(file)
        for name in _imported(file):
            waiting += [beside / f"{name}.py"] if (beside / f"{name}.py").is_file() else []
            waiting += _inside(beside / name)
    return found


def _inside(folder: Path) -> list[Path]:
    return sorted(islice(folder.rglob("*.py"), MOST_FILES)) if folder.is_dir() else []


def _imported(file: Path) -> set[str]:
    """The first words of what a file imports, also if it does not parse."""
    with suppress(OSError):
        text = file.read_text(encoding="utf-8", errors="replace")
        parts = [of or listed for of, listed in _IMPORTS.findall(text)]
        words = (word.split() for part in parts for word in part.split(","))
        return {word[0].partition(".")[0] for word in words if word}
    return set()
