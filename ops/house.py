"""Measure the house: how the product's code is cut into files and functions.

    make house, or python -P ops/house.py [FOLDER ...]

prints one row for the whole product and one for each part of it. A *single-use* function is
private and named exactly once in its module besides its definition: each is a jump for the reader.
Blank, docstring and import lines are shares of all lines; comments are counted per 100 lines.
Before the code was regrouped, the whole measured: 651 files, 74,072 lines, 11 % docstrings,
17 % blank, 9 % imports, functions 7 / 19 lines, files 99 lines, 28 % used once, 0.7 comments.
"""

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = {
    "domain": ["perdure/domain"],
    "adapters": ["perdure/adapters"],
    "interfaces": ["perdure/interfaces"],
    "gateway, submission": ["perdure/gateway", "perdure/submission"],
    "local services, operations": ["perdure/local_services", "perdure/operations"],
    "workflows": ["workflows"],
    "activities": ["activities"],
}
COLUMNS = [
    *("", "files", "lines", "code", "docstrings", "blank", "imports"),
    *("function median / 90 %", "file median / largest", "private, used once", "comments / 100"),
]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measured:
    """What one file holds, in lines, but for `functions` (lengths) and `single_use` (a count)."""

    lines: int
    blank: int
    docstrings: int
    imports: int
    comments: int
    functions: tuple[int, ...]
    single_use: int


def measured(path: Path) -> Measured:
    """The figures of one source file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    lines = text.splitlines()
    docstrings = {line for node in nodes for line in docstring_lines(node)}
    blank = {number for number, line in enumerate(lines, 1) if not line.strip()}
    functions = [node for node in nodes if isinstance(node, Function)]
    imports = (lines_of(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return Measured(
        lines=len(lines),
        blank=len(blank - docstrings),
        docstrings=len(docstrings),
        imports=sum(len(span) for span in imports),
        comments=comments(text),
        functions=tuple(len(lines_of(node)) for node in functions),
        single_use=single_use(functions, nodes),
    )


def lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def docstring_lines(node: ast.AST) -> Iterable[int]:
    if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node, False):
        return lines_of(node.body[0])
    return ()


def comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT for token in tokens)


def single_use(functions: list[Function], nodes: list[ast.AST]) -> int:
    used = Counter(names(nodes))
    private = (f.name for f in functions if f.name.startswith("_") and not f.name.endswith("__"))
    return sum(used[name] == 1 for name in private)


def names(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def row(name: str, files: list[Measured]) -> str:
    """One line of the table: the files taken together."""
    sizes = [file.lines for file in files]
    lines = sum(sizes)
    blank, docstrings, imports = (
        sum(getattr(file, kind) for file in files) for kind in ("blank", "docstrings", "imports")
    )
    lengths = sorted(length for file in files for length in file.functions) or [0]
    single = sum(file.single_use for file in files)
    notes = sum(file.comments for file in files)
    cells = [
        name,
        f"{len(files)}",
        f"{lines:,}",
        f"{lines - blank - docstrings - imports - notes:,}",
        *(f"{100 * part / lines:.0f} %" for part in (docstrings, blank, imports)),
        f"{statistics.median(lengths):.0f} / {lengths[len(lengths) * 9 // 10]}",
        f"{statistics.median(sizes):.0f} / {max(sizes)}",
        f"{100 * single / len(lengths):.0f} % ({single:,} of {len(lengths):,})",
        f"{100 * notes / lines:.1f}",
    ]
    return table_row(cells)


def table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def sources(folders: Iterable[str]) -> list[Path]:
    """The source files below the folders, but for package markers of one docstring."""
    found = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    return sorted(path for path in found if len(path.read_text(encoding="utf-8").splitlines()) > 1)


def main(folders: list[str]) -> None:
    whole = folders or ["perdure", "workflows", "activities"]
    parts = {folder: [folder] for folder in folders} if folders else PARTS
    rows = [table_row(COLUMNS), table_row(["---"] * len(COLUMNS))]
    rows.append(row("all", [measured(path) for path in sources(whole)]))
    rows += [row(name, [measured(path) for path in sources(at)]) for name, at in parts.items()]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
