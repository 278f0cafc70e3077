"""The commands for text files: cat, head, tail, wc, sort, uniq, cut, diff."""

import re
from collections.abc import Callable, Sequence
from itertools import groupby

from perdure.adapters.tools.shell.grammar import (
    Flag,
    Grammar,
    Parsed,
    command_error,
    is_count,
    is_text,
    matching,
    switch,
    switches,
)
from perdure.adapters.tools.shell.io import Place
from perdure.adapters.workspaces.patches import hunks

# Comparing lines takes time that grows with the square of their number.
_DIFF_LINES = 5_000
_SIGNED = matching(r"\+?[0-9]{1,6}")
_RANGES = matching(r"[0-9]{0,5}-?[0-9]{0,5}(,[0-9]{0,5}-?[0-9]{0,5}){0,20}")

CAT = Grammar(flags=(switch("-n", "--number"),), minimum=1)
HEAD = Grammar(
    flags=(
        Flag(("-n", "--lines"), is_count, glued=True),
        Flag(("-c", "--bytes"), is_count, glued=True),
        switch("-q", "--quiet"),
    ),
    minimum=1,
    count_flag="n",
)
TAIL = Grammar(
    flags=(
        Flag(("-n", "--lines"), _SIGNED, glued=True),
        Flag(("-c", "--bytes"), is_count, glued=True),
        switch("-q", "--quiet"),
    ),
    minimum=1,
    count_flag="n",
)
WC = Grammar(
    flags=(
        switch("-l", "--lines"),
        switch("-w", "--words"),
        switch("-c", "--bytes"),
        switch("-m", "--chars"),
    ),
    minimum=1,
)
SORT = Grammar(
    flags=(
        *switches("nrufb"),
        Flag(("-k", "--key"), matching(r"[0-9]{1,3}(,[0-9]{1,3})?n?"), glued=True),
        Flag(("-t", "--field-separator"), lambda text: len(text) == 1, glued=True),
    ),
    minimum=1,
)
UNIQ = Grammar(flags=switches("cdui"), minimum=1, maximum=1)
CUT = Grammar(
    flags=(
        Flag(("-f", "--fields"), _RANGES, glued=True),
        Flag(("-c", "--characters"), _RANGES, glued=True),
        Flag(("-d", "--delimiter"), lambda text: len(text) == 1, glued=True),
        switch("-s", "--only-delimited"),
    ),
    minimum=1,
)
DIFF = Grammar(
    flags=(
        switch("-u", "--unified"),
        Flag(("-U",), is_count, glued=True),
        switch("-q", "--brief"),
        switch("-i", "--ignore-case"),
        switch("-w", "--ignore-all-space"),
        switch("-b", "--ignore-space-change"),
        Flag(("--label",), is_text),
    ),
    minimum=2,
    maximum=2,
)


def cat(place: Place, given: Parsed) -> None:
    number = 0
    for path in given.operands:
        for line in place.lines(path):
            number += 1
            place.put(f"{number:6}\t{line}" if given.has("n") else line)


def head(place: Place, given: Parsed) -> None:
    _ends(place, given, lines=_first_lines)


def tail(place: Place, given: Parsed) -> None:
    _ends(place, given, lines=_last_lines)


def _ends(place: Place, given: Parsed, *, lines: Callable[[list[str], Parsed], list[str]]) -> None:
    for index, path in enumerate(given.operands):
        if len(given.operands) > 1 and not given.has("q"):
            place.put(f"{chr(10) if index else ''}==> {path} <==")
        if given.has("c"):
            place.put(_bytes_of(place, path, given, first=lines is _first_lines))
            continue
        for line in lines(place.lines(path), given):
            place.put(line)


def _first_lines(lines: list[str], given: Parsed) -> list[str]:
    return lines[: given.number("n", 10)]


def _last_lines(lines: list[str], given: Parsed) -> list[str]:
    wanted = given.last("n", "10")
    if wanted.startswith("+"):
        return lines[max(0, int(wanted) - 1) :]
    # `lines[-0:]` would be all of them.
    return lines[-int(wanted) :] if int(wanted) else []


def _bytes_of(place: Place, path: str, given: Parsed, *, first: bool) -> str:
    # By its text, so that a binary file is refused.
    data = place.text(path).encode()
    count = given.number("c", 0)
    # Not `data[-count:]`, which is everything if the count is 0.
    kept = data[:count] if first else data[len(data) - min(count, len(data)) :]
    return kept.decode(errors="replace")


def wc(place: Place, given: Parsed) -> None:
    keys = [key for key in ("l", "w", "m", "c") if given.has(key)] or ["l", "w", "c"]
    totals = dict.fromkeys(keys, 0)
    for path in given.operands:
        data = place.data(path)
        text = data.decode(errors="replace")
        counts = {"l": data.count(b"\n"), "w": len(text.split()), "m": len(text), "c": len(data)}
        for key in keys:
            totals[key] += counts[key]
        place.put(" ".join([*(str(counts[key]) for key in keys), path]))
    if len(given.operands) > 1:
        place.put(" ".join([*(str(totals[key]) for key in keys), "total"]))


def sort(place: Place, given: Parsed) -> None:
    lines = [line for path in given.operands for line in place.lines(path)]
    key = _sort_key(given)
    lines.sort(key=key, reverse=given.has("r"))
    if given.has("u"):
        # By the key, as `sort -u` does: lines that compare as equal are one.
        lines = [next(group) for _, group in groupby(lines, key=key)]
    for line in lines:
        place.put(line)


def _sort_key(given: Parsed) -> Callable[[str], tuple[float, str]]:
    field = given.last("k")
    numeric = given.has("n") or field.endswith("n")
    span = [int(number) for number in field.rstrip("n").split(",") if number]

    def key(line: str) -> tuple[float, str]:
        text = line
        if span:
            fields = line.split(given.last("t")) if given.has("t") else line.split()
            last = span[1] if len(span) > 1 else len(fields)
            text = " ".join(fields[max(0, span[0] - 1) : last])
        text = text.strip() if given.has("b") else text
        text = text.casefold() if given.has("f") else text
        return (_leading_number(text), "") if numeric else (0.0, text)

    return key


def _leading_number(text: str) -> float:
    found = re.match(r"\s*-?[0-9]{1,18}(\.[0-9]{1,18})?", text)
    return float(found[0]) if found else 0.0


def uniq(place: Place, given: Parsed) -> None:
    lines = place.lines(given.operands[0])
    fold = str.casefold if given.has("i") else str
    for _, group in groupby(lines, key=fold):
        same = list(group)
        if (given.has("d") and len(same) < 2) or (given.has("u") and len(same) > 1):
            continue
        place.put(f"{len(same):7} {same[0]}" if given.has("c") else same[0])


def cut(place: Place, given: Parsed) -> None:
    if given.has("f") == given.has("c"):
        raise command_error("cut takes either -f or -c")
    wanted = _ranges(given.last("f") if given.has("f") else given.last("c"))
    separator = given.last("d", "\t")
    for path in given.operands:
        for line in place.lines(path):
            if given.has("c"):
                place.put("".join(_picked(line, wanted)))
            elif separator in line:
                place.put(separator.join(_picked(line.split(separator), wanted)))
            elif not given.has("s"):
                place.put(line)


def _ranges(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low or high):
            raise command_error(f"cut: the range {text!r} is empty")
        first = int(low or 1)
        # An open range ends behind any line.
        found.append((first, int(high) if high else (10**9 if dash else first)))
    return found


def _picked(items: Sequence[str], wanted: list[tuple[int, int]]) -> list[str]:
    return [
        item
        for index, item in enumerate(items, start=1)
        if any(low <= index <= high for low, high in wanted)
    ]


def diff(place: Place, given: Parsed) -> None:
    left, right = given.operands
    old, new = place.lines(left), place.lines(right)
    fold = _folding(given)
    if [fold(line) for line in old] == [fold(line) for line in new]:
        return
    if given.has("q"):
        place.put(f"Files {left} and {right} differ")
        return
    if max(len(old), len(new)) > _DIFF_LINES:
        raise command_error(f"diff compares files of at most {_DIFF_LINES} lines; use diff -q")
    labels = [*given.flags.get("label", []), *given.operands[len(given.flags.get("label", [])) :]]
    # Lines that count as equal are shown as in the old file, so that they are no difference.
    known = {fold(line): line for line in old}
    shown = [known.get(fold(line), line) for line in new]
    place.put(f"--- {labels[0]}")
    place.put(f"+++ {labels[1]}")
    for line in hunks(_closed(old), _closed(shown), context=given.number("U", 3)):
        place.put(line.removesuffix("\n"))


def _closed(lines: list[str]) -> list[str]:
    return [f"{line}\n" for line in lines]


def _folding(given: Parsed) -> Callable[[str], str]:
    def fold(line: str) -> str:
        if given.has("w"):
            line = "".join(line.split())
        elif given.has("b"):
            line = " ".join(line.split())
        return line.casefold() if given.has("i") else line

    return fold
