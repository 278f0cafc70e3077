"""The code of plugin files, by digest: a worker that runs has loaded what was there when it began.

Who edits a plugin and runs a task again would otherwise run the old code, and not be told.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from perdure.adapters.settings.layers import is_plugin_file

CODE_OF = "the code of "
# A plugin is a few files. More come from a folder that holds a whole project.
MOST_FILES = 500
_IMPORTS = re.compile(r"^\s*(?:from\s+(\w+)[\w.]*\s+import|import\s+([\w., \t]+))", re.MULTILINE)


def code_digests(plugins: Iterable[str], digest: Callable[[bytes], str]) -> dict[str, str]:
    """A digest for each plugin that is a file or a folder; installed modules have none."""
    return {
        f"{CODE_OF}{name}": digest(b"\0".join(_contents(Path(name))))
        for name in plugins
        if is_plugin_file(name)
    }


def _contents(plugin: Path) -> Iterator[bytes]:
    for file in files_of(plugin):
        with suppress(OSError):  # one that is missing or cannot be read is told where it is loaded
            yield str(file).encode(errors="surrogateescape")
            yield file.read_bytes()


def files_of(plugin: Path) -> list[Path]:
    """The files of a plugin: its own, and those beside it that they import."""
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
