"""The placeholder stage: a tool computes something from its inputs.

Canned images and documents are refused, and so is a handler none of whose results depends on what
it was given.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.domain.generated_tools.code import Checked
from perdure.domain.generated_tools.handler import returns_of
from perdure.domain.generated_tools.name_resolution import names_in
from perdure.domain.generated_tools.rejections import ToolRefused, refused

MOST_ROUNDS = 50
_CANNED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"data:(image|application/pdf)[\w/+.-]*;base64", re.I), "a canned image"),
    (re.compile(r"^\s*(iVBORw0KGgo|/9j/|R0lGOD|UklGR|Qk0)[A-Za-z0-9+/=]{16,}"), "a canned image"),
    (re.compile(r"%PDF-\d|^\s*JVBERi0"), "a minimal PDF"),
)
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a canned image"),
    (b"\xff\xd8\xff", "a canned image"),
    (b"GIF8", "a canned image"),
    (b"%PDF-", "a minimal PDF"),
)


def placeholder_refusal(checked: Checked) -> ToolRefused | None:
    """Why a tool is a stand-in for one, or None."""
    canned = _canned(checked.module)
    if canned is not None:
        return _refused(f"the code holds {canned}; compute the result from the inputs")
    if not _depends(checked.handler.node):
        return _refused("no result depends on the inputs; compute it from them")
    return None


def _canned(module: ast.Module) -> str | None:
    for node in ast.walk(module):
        match node:
            case ast.Constant(value=str(text)):
                found = next((what for form, what in _CANNED if form.search(text)), None)
            case ast.Constant(value=bytes(data)):
                found = next((what for mark, what in _MAGIC if data.startswith(mark)), None)
            case _:
                continue
        if found is not None:
            return found
    return None


def _depends(node: ast.FunctionDef) -> bool:
    """Whether a result of the handler can differ with its inputs.

    A value depends on the inputs when it is made from one that does, or assigned, or returned,
    where a value that does decides. A handler without inputs has to call something at least.
    """
    inputs = {argument.arg for argument in node.args.kwonlyargs}
    if not inputs:
        return any(_calls(one) for one in returns_of(node))
    tainted = set(inputs)
    body = _steps(node.body, _changed_inside(node))
    # Again until nothing new depends on the inputs: a loop reads above what it writes below.
    for _ in range(MOST_ROUNDS):
        before = len(tainted)
        _spread(body, tainted, decided=False)
        if len(tainted) == before:
            break
    return _returned(body, tainted, decided=False)


def _calls(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement with the names in it, collected once: the rounds ask for them again and again.

    `deciding`: names by whose values one of its blocks runs or not. `bound`: names that it gives a
    value. `returned`: names in what it returns; None: it returns nothing.
    """

    names: frozenset[str]
    deciding: frozenset[str]
    bound: frozenset[str]
    returned: frozenset[str] | None
    blocks: tuple[tuple["_Step", ...], ...]
    is_definition: bool


Inner = Mapping[str, frozenset[str]]


def _changed_inside(node: ast.FunctionDef) -> Inner:
    """The functions inside, each with the names around them that they or their likes may change."""
    inside = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef)][1:]
    changed = frozenset(name for part in inside for name in _changed(part) - _own_names(part))
    # One set for all: a function inside may call another one.
    return dict.fromkeys((part.name for part in inside), changed)


def _own_names(node: ast.FunctionDef) -> set[str]:
    # A name that a function writes to is its own: `nonlocal` is refused before this stage.
    stored = {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    return stored | {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}


def _steps(body: list[ast.stmt], inner: Inner) -> tuple[_Step, ...]:
    return tuple(_step(statement, inner) for statement in body)


def _step(statement: ast.stmt, inner: Inner) -> _Step:
    blocks = tuple(_steps(block, inner) for block in _blocks(statement))
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            bound, is_definition = {name}, True
        case _:
            bound = _targets(statement) if blocks else _written(statement)
            is_definition = False
    names = frozenset(names_in(statement))
    if not blocks and not is_definition:
        # What is handed to a function inside may reach all that this one changes.
        bound = bound.union(*(inner[name] for name in names & inner.keys()))
    value = statement.value if isinstance(statement, ast.Return) else None
    return _Step(
        names=names,
        deciding=frozenset(name for part in _decisive(statement) for name in names_in(part)),
        bound=frozenset(bound),
        returned=None if value is None else frozenset(names_in(value)),
        blocks=blocks,
        is_definition=is_definition,
    )


def _spread(body: Sequence[_Step], tainted: set[str], *, decided: bool) -> None:
    for step in body:
        reads = not step.names.isdisjoint(tainted)
        if step.is_definition:
            # A function inside that reads an input gives what depends on it.
            tainted.update(step.bound if reads else ())
            continue
        inner = decided or not step.deciding.isdisjoint(tainted)
        if inner or (reads and not step.blocks):
            tainted.update(step.bound)
        for block in step.blocks:
            _spread(block, tainted, decided=inner)


def _returned(body: Sequence[_Step], tainted: set[str], *, decided: bool) -> bool:
    for step in body:
        returned = step.returned
        if returned is not None and (decided or not returned.isdisjoint(tainted)):
            return True
        inner = decided or not step.deciding.isdisjoint(tainted)
        if any(_returned(block, tainted, decided=inner) for block in step.blocks):
            return True
    return False


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    match statement:
        case ast.If() | ast.For() | ast.While():
            return [statement.body, statement.orelse]
        case ast.With():
            return [statement.body]
        case ast.Try():
            handlers = [handler.body for handler in statement.handlers]
            return [statement.body, *handlers, statement.orelse, statement.finalbody]
        case ast.Match():
            return [case.body for case in statement.cases]
        case _:
            return []


def _decisive(statement: ast.stmt) -> Sequence[ast.AST]:
    """The parts by whose values one of the blocks of a statement runs or not."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=values):
            return [values]
        case ast.With(items=items):
            return items
        case ast.Match(subject=subject):
            return [subject]
        case ast.Try(body=body):
            # What fails, and so which block runs, depends on what is tried.
            return body
        case _:
            return ()


def _written(statement: ast.stmt) -> set[str]:
    """Names that a plain statement writes to, or whose values it may change by a method."""
    stored = (part for part in ast.walk(statement) if isinstance(part, ast.Name))
    names = {part.id for part in stored if isinstance(part.ctx, ast.Store)}
    return names | _changed(statement)


def _changed(statement: ast.stmt) -> set[str]:
    """Names whose values a statement may change from within, by an index or a method."""
    found: set[str] = set()
    for part in ast.walk(statement):
        match part:
            case (
                ast.Subscript(value=value, ctx=ast.Store())
                | ast.Attribute(value=value, ctx=ast.Store())
            ):
                found.update(names_in(value))
            case ast.Call(func=function, args=args):
                # A method may change its object, and a function what it is given.
                receivers = [function.value] if isinstance(function, ast.Attribute) else []
                for value in (*receivers, *args):
                    found.update(names_in(value))
            case _:
                continue
    return found


def _targets(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return {
                name
                for part in ast.walk(test)
                if isinstance(part, ast.NamedExpr)
                for name in names_in(part.target)
            }
        case ast.For(target=target):
            return set(names_in(target))
        case ast.With(items=items):
            return {name for item in items if item.optional_vars is not None
                    for name in names_in(item.optional_vars)}  # fmt: skip
        case ast.Match(cases=cases):
            return {
                name
                for case in cases
                for part in ast.walk(case.pattern)
                if isinstance(name := getattr(part, "name", None), str)
            }
        case _:
            return set()


def _refused(message: str) -> ToolRefused:
    return refused("placeholder", 403, "placeholder", message)
