"""The product's source as syntax trees, and what names in it stand for."""

import ast
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("perdure", "workflows", "activities")


@dataclass(frozen=True, slots=True)
class Module:
    """One source file; `name` is what it is imported by."""

    name: str
    path: Path
    tree: ast.Module

    def __str__(self) -> str:
        return self.name


@cache
def modules(*under: str) -> tuple[Module, ...]:
    """All modules below the given folders, for example `perdure/domain`, environments left out."""
    # Python 3.11 raises SystemError if a collection in the middle of a parse runs a finalizer that
    # parses too, as a traceback does that is logged there.
    gc.disable()
    try:
        return tuple(
            Module(_name(path), path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8")))
            for folder in under
            for path in sorted((ROOT / folder).rglob("*.py"))
            if ".venv" not in path.relative_to(ROOT).parts
        )
    finally:
        gc.enable()


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of what a module imports, `from a import b` as `a.b`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            case _:
                pass


def uses(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The full names of everything that is referred to through an import, with the line."""
    known = _known_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = _dotted(node, known)
            if name is not None:
                yield name, node.lineno


def texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """All string constants but docstrings, with the line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in (item for item in ast.walk(tree) if isinstance(item, ast.expr)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in docstrings:
            yield text, node.lineno


def tracked_files() -> list[Path]:
    """Text files that git keeps, and new ones that it does not ignore."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    found = (ROOT / name for name in done.stdout.decode().split("\0") if name)
    return [path for path in found if path.is_file() and b"\0" not in path.read_bytes()[:8000]]


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    inside = () if parts[0] in ("perdure", "benchmarks", "tests") else ("perdure",)
    return ".".join((*inside, *(part for part in parts if part != "__init__")))


def _known_names(tree: ast.AST) -> dict[str, str]:
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    known[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom():
                for alias in node.names:
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            case _:
                pass
    return known


def _dotted(node: ast.expr, known: dict[str, str]) -> str | None:
    match node:
        case ast.Name():
            return known.get(node.id)
        case ast.Attribute():
            head = _dotted(node.value, known)
            return None if head is None else f"{head}.{node.attr}"
        case _:
            return None
