"""Detects the kind of content of an output, and the role of each line."""

import ast
import json
import re
import warnings
from typing import Literal

ContentKind = Literal["code", "json", "text"]
LineKind = Literal["code", "comments", "docs", "tests", "structure", "blank"]

CODE_SHARE = 0.4
MAX_PARSED_CHARACTERS = 400_000

_FENCE = re.compile(r"^\s*(```|~~~)")
_CODE_LINE = re.compile(
    r"[{};]\s*$|\w\(.*\)\s*$|^\s*[)}\]]+[,;]?\s*$|^\s*(?:import|from|#include|using|package|const|let|var|fn|func|"
    r"function|def|class|struct|impl|enum|interface|public|private|static|return|if|for|while|"
    r"else|elif|try|end)\b.*[({:=;)]?"
)
_CODE_MARK = re.compile(r"[{}();=]|:\s*$|^\s*(?:end|else|return|import)\b")
_COMMENT = re.compile(r"^\s*(?:#(?!include|!)|//|/\*|\*(?:\s|/|$)|--\s|;;|%%)")
_TEST = re.compile(
    r"\bassert\b|\bassert[A-Z_]\w*|\bdef test_|\btest\(|\bit\(|\bdescribe\(|\bexpect\(|@Test\b|"
    r"#\[test\]|\bfunc Test|\bpytest\b|\bunittest\b"
)
_SIGNATURE = re.compile(
    r"^\s*(?:@\w|import\b|from\s+\S+\s+import\b|#include|using\b|package\b|(?:async\s+)?def\b|class\b|"
    r"struct\b|impl\b|interface\b|enum\b|trait\b|(?:pub\s+)?fn\b|func\b|(?:export\s+)?function\b)"
)
_DOCSTRING = re.compile(r"^\s*[rRuU]?(?:\"\"\"|''')")
_HEADING = re.compile(
    r"^\s{0,3}#{1,6}\s+\S|^\s*(?:=+|-{3,}|\*{3,})\s*$|^\s*\d+(?:\.\d+)*[.)]?\s+[A-Z]\S*$"
)


def kind_of(text: str) -> ContentKind:
    """The kind of a whole output; prose with a little code in it is text."""
    if _is_json(text):
        return "json"
    if python_tree(text) is not None:
        return "code"
    lines = [line for line in code_lines(text) if line.strip()]
    marked = [line for line in lines if _CODE_LINE.search(line) and _CODE_MARK.search(line)]
    return "code" if lines and len(marked) >= CODE_SHARE * len(lines) else "text"


def code_lines(text: str) -> list[str]:
    """The lines of an output; the marks around a single fenced block are emptied."""
    lines = text.split("\n")
    said = [number for number, line in enumerate(lines) if line.strip()]
    fences = [number for number, line in enumerate(lines) if _FENCE.match(line)]
    if len(fences) == 2 and fences == [said[0], said[-1]]:
        # Emptied and not dropped, so that the numbers of lines stay.
        lines[fences[0]] = lines[fences[1]] = ""
    return lines


def python_tree(text: str) -> ast.Module | None:
    """The syntax tree of Python code, with the line numbers of `text`; None for anything else."""
    if len(text) > MAX_PARSED_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            # odd escapes in the output only matter to its author
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(code_lines(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    # A single word, or a sentence in quotes, is an expression to Python.
    said = any(not isinstance(node, ast.Expr) for node in tree.body)
    return tree if said else None


def line_kind(line: str, content: ContentKind) -> LineKind:
    """What a line is for; in prose everything but headings is documentation."""
    if not line.strip():
        return "blank"
    if content == "text":
        return "structure" if _HEADING.match(line) else "docs"
    if content == "json":
        return "structure"
    if _COMMENT.match(line):
        return "comments"
    if _DOCSTRING.match(line):
        return "docs"
    if _TEST.search(line):
        return "tests"
    return "structure" if _SIGNATURE.match(line) else "code"


def is_heading(line: str) -> bool:
    return bool(_HEADING.match(line))


def docstring_lines(text: str) -> frozenset[int]:
    """The lines (from 1) of Python docstrings; empty for anything that is not Python."""
    tree = python_tree(text)
    if tree is None:
        return frozenset()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return frozenset(found)


def _is_json(text: str) -> bool:
    if text.strip()[:1] not in {"{", "["}:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
