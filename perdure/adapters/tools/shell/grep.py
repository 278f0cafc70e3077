"""grep with a linear-time engine; basic and extended expressions, as its flags say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perdure.adapters.files.rooted_files import Parts
from perdure.adapters.tools.read_files import as_text
from perdure.adapters.tools.regex import Finder, Span, all_finder, finder, glob_matcher
from perdure.adapters.tools.shell.grammar import (
    Flag,
    Grammar,
    Parsed,
    command_error,
    is_count,
    is_text,
    path_parts,
    switch,
)
from perdure.adapters.tools.shell.io import Place, name_of, text_lines
from perdure.domain.foundation.errors import ToolFailure

GREP = Grammar(
    flags=(
        switch("-r", "-R", "--recursive"),
        switch("-n", "--line-number"),
        switch("-i", "--ignore-case"),
        switch("-l", "--files-with-matches"),
        switch("-L", "--files-without-match"),
        switch("-c", "--count"),
        switch("-v", "--invert-match"),
        switch("-w", "--word-regexp"),
        switch("-x", "--line-regexp"),
        switch("-o", "--only-matching"),
        switch("-F", "--fixed-strings"),
        switch("-E", "--extended-regexp"),
        switch("-P", "--perl-regexp"),
        switch("-G", "--basic-regexp"),
        switch("-h", "--no-filename"),
        switch("-H", "--with-filename"),
        switch("-s", "--no-messages"),
        switch("-I"),  # binary files are skipped in any case
        Flag(("-e", "--regexp"), is_text),
        Flag(("-m", "--max-count"), is_count, glued=True),
        Flag(("-A", "--after-context"), is_count, glued=True),
        Flag(("-B", "--before-context"), is_count, glued=True),
        Flag(("-C", "--context"), is_count, glued=True),
        Flag(("--include",), is_text),
        Flag(("--exclude",), is_text),
        Flag(("--exclude-dir",), is_text),
    ),
    minimum=0,
    count_flag="C",
)
_MANY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Wish:
    """What to search for, and how to print it."""

    finders: tuple[Finder, ...]
    every: Callable[[str], Iterator[Span]]
    given: Parsed
    named: bool

    def span(self, line: str) -> Span | None:
        found = [span for find in self.finders if (span := find(line)) is not None]
        if self.given.has("v"):
            return None if found else (0, len(line))
        return min(found) if found else None

    def spans(self, line: str) -> Iterator[Span]:
        """All non-overlapping matches of a line, for `-o`."""
        return (span for span in self.every(line) if span[1] > span[0])


def grep(place: Place, given: Parsed) -> None:
    """Print matching lines, as grep does; `-r` without a path searches the whole workspace."""
    patterns = list(given.flags.get("e", []))
    operands = list(given.operands)
    if not patterns:
        if not operands:
            raise command_error("grep needs a pattern")
        patterns.append(operands.pop(0))
    if not operands and not given.has("r"):
        raise command_error("grep needs a file, or -r for the whole workspace")
    roots = [path_parts(path) for path in operands] or [()]
    sources = [_translated(pattern, given) for pattern in patterns]
    blind = given.has("i")
    wish = _Wish(
        finders=tuple(finder(source, regex=True, ignore_case=blind) for source in sources),
        every=all_finder(sources, ignore_case=blind),
        given=given,
        named=given.has("H") or (not given.has("h") and (given.has("r") or len(roots) > 1)),
    )
    for root in roots:
        for parts in _files(place, root, given):
            _look(place, parts, wish)


def _files(place: Place, root: Parts, given: Parsed) -> Iterator[Parts]:
    if not place.is_folder(place.real(root)):
        # As it was named, which is what the output shows; `_look` follows its links.
        yield root
        return
    if not given.has("r"):
        raise command_error(f"{name_of(root)} is a folder; add -r")
    include = [glob_matcher(glob) for glob in given.flags.get("include", [])]
    exclude = [glob_matcher(glob) for glob in given.flags.get("exclude", [])]
    closed = [glob_matcher(glob) for glob in given.flags.get("exclude-dir", [])]
    start = place.real(root)
    for parts, entry in place.walk(start):
        if entry.kind != "file" or any(
            matches(folder) for matches in closed for folder in parts[len(start) : -1]
        ):
            continue
        if include and not any(matches(entry.name) for matches in include):
            continue
        if not any(matches(entry.name) for matches in exclude):
            yield parts


def _look(place: Place, parts: Parts, wish: _Wish) -> None:
    name = name_of(parts)
    place.check_time()
    try:
        lines = text_lines(as_text(name, place.files.read(place.real(parts))))
    except ToolFailure as failure:
        # In a tree, files may vanish or be unreadable. One that was named has to be told.
        if failure.reason == "binary" or wish.given.has("r", "s"):
            return
        raise
    limit = wish.given.number("m", _MANY)
    hits = [index for index, line in enumerate(lines) if wish.span(line) is not None][:limit]
    if wish.given.has("l", "L"):
        if bool(hits) == wish.given.has("l"):
            place.put(name)
    elif wish.given.has("c"):
        place.put(f"{name}:{len(hits)}" if wish.named else str(len(hits)))
    else:
        _show(place, name, lines, hits, wish)


def _show(place: Place, name: str, lines: list[str], hits: list[int], wish: _Wish) -> None:
    around = wish.given.number("C", 0)
    before, after = wish.given.number("B", around), wish.given.number("A", around)
    marked = set(hits)
    shown = -1
    for hit in hits:
        start = max(shown + 1, hit - before, 0)
        if (before or after) and shown >= 0 and start > shown + 1:
            place.put("--")
        for index in range(start, min(len(lines), hit + after + 1)):
            _line(place, name, index, lines[index], wish, hit=index in marked)
            shown = index


def _line(place: Place, name: str, index: int, line: str, wish: _Wish, *, hit: bool) -> None:
    mark = ":" if hit else "-"
    prefix = f"{name}{mark}" if wish.named else ""
    prefix += f"{index + 1}{mark}" if wish.given.has("n") else ""
    if hit and wish.given.has("o") and not wish.given.has("v"):
        for start, end in wish.spans(line):
            place.put(prefix + line[start:end])
    else:
        place.put(prefix + line)


def _translated(pattern: str, given: Parsed) -> str:
    """The pattern in RE2 syntax."""
    if given.has("F"):
        # Every character by its number, so that none of them is an operator.
        source = "".join(f"\\x{{{ord(character):x}}}" for character in pattern)
    elif given.has("E", "P"):
        source = pattern
    else:
        source = basic_to_extended(pattern)
    # An empty pattern matches every line. RE2 has no `\<` and `\>`.
    source = (source or "(?:)").replace("\\<", "\\b").replace("\\>", "\\b")
    if given.has("w"):
        source = f"\\b(?:{source})\\b"
    return f"^(?:{source})$" if given.has("x") else source


def basic_to_extended(pattern: str) -> str:
    r"""A basic expression as an extended one: in basic ones `\(` is an operator and `(` is not."""
    swapped = frozenset("(){}|+?")
    out: list[str] = []
    at = 0
    while at < len(pattern):
        here = pattern[at]
        if here == "\\" and at + 1 < len(pattern):
            after = pattern[at + 1]
            out.append(after if after in swapped else here + after)
            at += 2
        elif here == "[":
            end = _class_end(pattern, at)
            out.append(pattern[at:end])
            at = end
        elif _is_plain_anchor(pattern, at):
            out.append(f"\\{here}")
            at += 1
        else:
            out.append(f"\\{here}" if here in swapped else here)
            at += 1
    return "".join(out)


def _is_plain_anchor(pattern: str, at: int) -> bool:
    """Whether `^` is not at a beginning, or `$` not at an end, and so an ordinary character."""
    if pattern[at] == "^":
        return at > 0 and not pattern[:at].endswith(("\\(", "\\|"))
    after = pattern[at + 1 :]
    return pattern[at] == "$" and after != "" and not after.startswith(("\\)", "\\|"))


def _class_end(pattern: str, start: int) -> int:
    """Where the bracket expression that opens at `start` ends."""
    at = start + 1
    if pattern[at : at + 1] == "^":
        at += 1
    # A bracket at the beginning stands for itself.
    end = pattern.find("]", at + 1)
    return len(pattern) if end < 0 else end + 1
