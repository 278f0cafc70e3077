"""The commands for folders: ls, find, stat."""

import stat as modes
from collections.abc import Callable
from datetime import UTC, datetime

from perdure.adapters.files.links import inside
from perdure.adapters.files.paths import is_dotenv, shown, why_protected
from perdure.adapters.files.rooted_files import FolderEntry, Parts, kind_of
from perdure.adapters.tools.regex import glob_matcher
from perdure.adapters.tools.shell.grammar import (
    Grammar,
    Parsed,
    Word,
    command_error,
    is_count,
    matching,
    path_parts,
    switch,
    switches,
)
from perdure.adapters.tools.shell.io import Place, name_of

LS = Grammar(flags=(*switches("laAh1tSrRd"), switch("--all"), switch("--recursive")))
STAT = Grammar(flags=(), minimum=1)

Test = Callable[[Parts, FolderEntry, int], bool]

_SIZE = matching(r"[+-]?[0-9]{1,9}[cbkMG]?")
_UNITS = {"c": 1, "b": 512, "k": 1024, "M": 1024**2, "G": 1024**3}
_KINDS = {"f": "file", "d": "folder", "l": "link"}
_MAX_TESTS = 24


def ls(place: Place, given: Parsed) -> None:
    """List folders and files; without -l a named link to a folder is followed."""
    targets = [path_parts(path) for path in given.operands] or [()]
    for named in targets:
        target = named if given.has("d", "l") else place.real(named)
        if given.has("d") or not place.is_folder(target):
            place.put(_row(name_of(target), _entry(place, target), given))
            continue
        if len(targets) > 1 or given.has("R", "recursive"):
            place.put(f"{name_of(target)}:")
        _folder(place, target, given)


def _folder(place: Place, folder: Parts, given: Parsed) -> None:
    shows_all = given.has("a", "A", "all")
    entries = [
        one for one in place.files.entries(folder) if shows_all or not one.name.startswith(".")
    ]
    if given.has("t"):
        entries.sort(key=lambda entry: -entry.status.st_mtime_ns)
    elif given.has("S"):
        entries.sort(key=lambda entry: -entry.status.st_size)
    if given.has("r"):
        entries.reverse()
    for entry in entries:
        place.put(_row(name_of((entry.name,)), entry, given))
    if given.has("R", "recursive"):
        for entry in entries:
            inner = (*folder, entry.name)
            if entry.kind == "folder" and why_protected(inner, use="read") is None:
                place.put(f"\n{name_of(inner)}:")
                _folder(place, inner, given)


def _row(name: str, entry: FolderEntry, given: Parsed) -> str:
    ending = {"folder": "/", "link": "@"}.get(entry.kind, "")
    if not given.has("l"):
        return f"{name}{ending}"
    status = entry.status
    when = datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%d %H:%M")
    size = _readable(status.st_size) if given.has("h") else str(status.st_size)
    return f"{modes.filemode(status.st_mode)} {status.st_nlink} {size:>9} {when} {name}{ending}"


def _readable(size: int) -> str:
    amount = float(size)
    for unit in ("", "K", "M"):
        if amount < 1024:
            return f"{amount:.0f}{unit}" if not unit else f"{amount:.1f}{unit}"
        amount /= 1024
    return f"{amount:.1f}G"


def stat(place: Place, given: Parsed) -> None:
    """Size, kind, mode and time of files."""
    for path in given.operands:
        entry = _entry(place, path_parts(path))
        status = entry.status
        when = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        place.put(
            f"{path}: {entry.kind}, {status.st_size} bytes, {modes.filemode(status.st_mode)}, "
            f"links {status.st_nlink}, modified {when}"
        )


def _entry(place: Place, parts: Parts) -> FolderEntry:
    parts = inside(place.files, parts, last=False)
    place.is_folder(parts)
    status = place.files.status(parts)
    if status is None:
        raise command_error(f"{shown(name_of(parts))} vanished meanwhile")
    name = parts[-1] if parts else "."
    return FolderEntry(name=name, kind=kind_of(status.st_mode), status=status)


def find(place: Place, words: tuple[Word, ...]) -> None:
    """Print the paths that pass all tests; `-o` begins an alternative set of tests."""
    reader = _Tests([word.text for word in words])
    targets = [path_parts(path) for path in reader.paths()] or [()]
    sets = reader.sets()
    for named in targets:
        target = inside(place.files, named, last=False)
        place.is_folder(target)
        if reader.holds(sets, target, _entry(place, target), 0):
            place.put(name_of(target))
        if kind_of(_entry(place, target).status.st_mode) != "folder":
            continue
        for parts, entry in place.walk(target):
            depth = len(parts) - len(target)
            if not is_dotenv(entry.name) and reader.holds(sets, parts, entry, depth):
                place.put(name_of(parts))


class _Tests:
    """Parses the expression of find: a fixed list of tests, and printing as the only action."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._low, self._high = 0, 10_000

    def paths(self) -> list[str]:
        found: list[str] = []
        while self._words and not self._words[0].startswith("-"):
            found.append(self._words.pop(0))
        return found

    def sets(self) -> list[list[Test]]:
        found: list[list[Test]] = [[]]
        negate = False
        while self._words:
            word = self._words.pop(0)
            match word:
                case "-not":
                    negate = not negate
                    continue
                case "-o" | "-or":
                    found.append([])
                case "-a" | "-and" | "-print" | "-print0":
                    pass
                case "-maxdepth":
                    self._high = self._number(word)
                case "-mindepth":
                    self._low = self._number(word)
                case _:
                    found[-1].append(_negated(self._test(word)) if negate else self._test(word))
            negate = False
        if sum(map(len, found)) > _MAX_TESTS:
            raise command_error(f"find takes at most {_MAX_TESTS} tests")
        return found

    def holds(self, sets: list[list[Test]], parts: Parts, entry: FolderEntry, depth: int) -> bool:
        return self._low <= depth <= self._high and any(
            all(test(parts, entry, depth) for test in tests) for tests in sets
        )

    def _test(self, word: str) -> Test:
        match word:
            case "-name" | "-iname":
                return _name_test(self._value(word), ignore_case=word == "-iname")
            case "-path" | "-ipath" | "-wholename":
                return _path_test(self._value(word), ignore_case=word == "-ipath")
            case "-type":
                return _kind_test(self._value(word))
            case "-size":
                return _size_test(self._value(word))
            case "-empty":
                return lambda _parts, entry, _depth: (
                    entry.kind == "file" and entry.status.st_size == 0
                )
            case _:
                raise command_error(
                    f"find takes no test or action {word[:80]!r} here (allowed: -name -iname -path "
                    "-ipath -type -size -empty -maxdepth -mindepth -not -o -print)"
                )

    def _value(self, word: str) -> str:
        if not self._words:
            raise command_error(f"find: {word} needs a value")
        return self._words.pop(0)

    def _number(self, word: str) -> int:
        value = self._value(word)
        if not is_count(value):
            raise command_error(f"find: {word} does not take the value {value[:80]!r}")
        return int(value)


def _negated(test: Test) -> Test:
    return lambda parts, entry, depth: not test(parts, entry, depth)


def _name_test(pattern: str, *, ignore_case: bool) -> Test:
    if "/" in pattern:
        raise command_error("find -name compares one name and takes no slash; use -path")
    matches = glob_matcher(pattern, ignore_case=ignore_case)
    return lambda _parts, entry, _depth: matches(entry.name)


def _path_test(pattern: str, *, ignore_case: bool) -> Test:
    matches = glob_matcher(
        pattern.removeprefix("./"), ignore_case=ignore_case, whole=True, across=True
    )
    return lambda parts, _entry, _depth: matches("/".join(parts))


def _kind_test(letter: str) -> Test:
    if letter not in _KINDS:
        raise command_error(f"find -type takes one of f, d, l and not {letter[:80]!r}")
    return lambda _parts, entry, _depth: entry.kind == _KINDS[letter]


def _size_test(text: str) -> Test:
    if not _SIZE(text):
        raise command_error(f"find: -size does not take {text[:80]!r}; such as +10k")
    # Without a unit, find counts blocks of 512 bytes.
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "b")
    wanted = abs(int(number))

    def holds(_parts: Parts, entry: FolderEntry, _depth: int) -> bool:
        units = -(-entry.status.st_size // _UNITS[unit])  # rounded up, as find does
        if number.startswith("+"):
            return units > wanted
        return units < wanted if number.startswith("-") else units == wanted

    return holds
