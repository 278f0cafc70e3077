"""The static stage: a tool's code parses, imports what it may, and has one handler.

It runs nothing. The source is judged as the text that will be executed, byte for byte.
"""

import ast
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.domain.generated_tools.draft import ToolDraft, size_problem
from perdure.domain.generated_tools.forbidden_names import dangers, importable
from perdure.domain.generated_tools.handler import Handler, find_handler
from perdure.domain.generated_tools.name_resolution import Tangled
from perdure.domain.generated_tools.rejections import ToolRefused, refused

MOST_NODES = 6_000
MOST_DEPTH = 60
# Editors hide some of these, and others end a line for one reader and not for the next.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff]")
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_WRITTEN = ("STRING", "COMMENT", "FSTRING")  # kinds of tokens that may have letters of any script
_TOP_LEVEL = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
# The interpreter lacks these. Told here in words, a repair replaces them before anything runs.
_UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "async functions",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Await: "await",
    ast.Yield: "generators (yield)",
    ast.YieldFrom: "generators (yield)",
    ast.Delete: "del",
    ast.TryStar: "except*",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """Code that passed the static stage."""

    module: ast.Module
    handler: Handler


def check_code(draft: ToolDraft) -> Checked | ToolRefused:
    """The parsed code and its handler, or why the code is not taken."""
    large = size_problem(draft)
    if large is not None:
        return _shape(large)
    odd = _odd_text(draft.code)
    if odd is not None:
        return _shape(odd)
    parsed = _parse(draft.code)
    if isinstance(parsed, ToolRefused):
        return parsed
    try:
        return _judged(draft, parsed)
    except (RecursionError, Tangled):
        return _shape("the code is too tangled to follow")


def _judged(draft: ToolDraft, module: ast.Module) -> Checked | ToolRefused:
    # Size and depth first: what follows walks the tree many times.
    shape = next(_shapes(module), None)
    if shape is not None:
        return _shape(shape)
    unknown = next(_imports(module, importable(draft.name)), None)
    if unknown is not None:
        return refused("static", 403, "import", unknown)
    danger = next(dangers(module), None)
    if danger is not None:
        return refused("static", 403, "validation", danger)
    handler = find_handler(module)
    if isinstance(handler, str):
        return _shape(handler)
    return Checked(module=module, handler=handler)


def _parse(code: str) -> ast.Module | ToolRefused:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape only warns its author
            module = ast.parse(code)
    except SyntaxError as error:
        return _shape(f"line {error.lineno}: {error.msg}")
    # Hostile text makes the parser raise any of these; none may end the step.
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _shape(f"the code cannot be read ({type(error).__name__})")
    try:
        words = [
            token.string
            for token in tokenize.generate_tokens(iter(code.splitlines(keepends=True)).__next__)
            if not tokenize.tok_name[token.type].startswith(_WRITTEN)
        ]
    except (tokenize.TokenError, SyntaxError) as error:
        return _shape(f"the code cannot be read ({error})")
    # Python folds look-alike letters of names together; another reader of the text may not.
    strange = next((word for word in words if not word.isascii()), None)
    if strange is not None:
        return _shape(f"{strange[:40]!r} has letters outside of ASCII")
    return module


def _odd_text(code: str) -> str | None:
    try:
        code.encode("utf-8")
    except UnicodeEncodeError:
        return "the code holds half of a character (a lone surrogate)"
    found = _CONTROLS.search(code)
    if found is not None:
        return f"the code holds the control character {found[0]!r}; lines end with \\n"
    # Python looks for it in the first two lines only.
    for line in code.splitlines()[:2]:
        # By this line a reader of bytes would see another program than the one that is judged.
        cookie = _COOKIE.match(line)
        if cookie is not None and cookie[1].lower() not in {"utf-8", "utf8"}:
            return f"the code asks to be read as {cookie[1]}; it is UTF-8"
    return None


def _shapes(module: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(module))
    if len(nodes) > MOST_NODES:
        yield f"the code has {len(nodes):,} parts; at most {MOST_NODES:,} are taken"
    if _depth(module) > MOST_DEPTH:
        yield f"the code is nested more than {MOST_DEPTH} levels deep"
    for node in nodes:
        for form, words in _UNSUPPORTED.items():
            if isinstance(node, form):
                line = getattr(node, "lineno", 1)
                yield f"line {line}: the interpreter of tools has no {words}"
        if isinstance(node, ast.ClassDef) and (node.bases or node.keywords):
            yield f"line {node.lineno}: the interpreter of tools has no class inheritance"
    for position, node in enumerate(module.body):
        if not (position == 0 and _is_text(node)) and not isinstance(node, _TOP_LEVEL):
            yield (
                f"line {node.lineno}: outside of functions there may be imports, definitions and "
                "constants only"
            )


def _is_text(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def _imports(module: ast.Module, allowed: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                wanted = [alias.name for alias in names]
            case ast.ImportFrom(module=name, level=level):
                # A relative import keeps its dots, which no allowed name has.
                wanted = ["." * level + (name or "")]
            case _:
                continue
        for name in wanted:
            if name not in allowed:
                listed = ", ".join(sorted(allowed))
                yield f"line {node.lineno}: {name} may not be imported; tools have {listed}"


def _depth(module: ast.Module) -> int:
    deepest = 0
    # Without recursion: the tree may be deeper than the stack.
    level: list[ast.AST] = [module]
    while level and deepest <= MOST_DEPTH:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        deepest += 1
    return deepest


def _shape(message: str) -> ToolRefused:
    return refused("static", 400, "validation", message)
