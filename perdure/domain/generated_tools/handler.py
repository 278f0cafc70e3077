"""The handler of a tool: the one function that a call runs, with keyword-only arguments."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

HANDLER = "handler"


@dataclass(frozen=True, slots=True)
class Handler:
    """The handler as it stands in the code."""

    node: ast.FunctionDef

    @property
    def name(self) -> str:
        """The function's name."""
        return self.node.name

    @property
    def arguments(self) -> tuple[tuple[ast.arg, ast.expr | None], ...]:
        """Arguments with their defaults, None where there is none."""
        given = self.node.args
        return tuple(zip(given.kwonlyargs, given.kw_defaults, strict=True))

    @property
    def summary(self) -> str:
        """What the handler says of itself."""
        return (ast.get_docstring(self.node) or "").strip()


def find_handler(module: ast.Module) -> Handler | str:
    """The handler of a module, or what is wrong, as a sentence.

    It is the function `handler`, or else the only function whose name has no leading underscore.
    """
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    named = [node for node in functions if node.name == HANDLER]
    public = named or [node for node in functions if not node.name.startswith("_")]
    if len(public) != 1:
        found = ", ".join(node.name for node in public) or "none"
        return (
            "there must be exactly one handler: a function `handler`, other functions with a "
            f"leading underscore (found: {found})"
        )
    node = public[0]
    # A second binding would replace the function that was judged.
    rebound = [name for name in _bound_at_top(module) if name == node.name]
    if len(rebound) > 1:
        return f"{node.name} is bound more than once"
    return _signed(node)


def own_level(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """Everything in a function that belongs to no function or class inside it."""
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        part = waiting.pop(0)
        yield part
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(part))


def returns_of(node: ast.FunctionDef) -> list[ast.Return]:
    """The returns of a function itself, with a value."""
    return [
        part for part in own_level(node) if isinstance(part, ast.Return) and part.value is not None
    ]


def _signed(node: ast.FunctionDef) -> Handler | str:
    given = node.args
    if node.decorator_list:
        return f"{node.name} is the handler and may have no decorator"
    if given.posonlyargs or given.args or given.vararg or given.kwarg:
        return f"{node.name} must take its arguments by keyword only: def {node.name}(*, a: str)"
    returns = returns_of(node)
    # `return None` may stop early, but is no result.
    kept = [one for one in returns if not _is_none(one.value)]
    if not kept:
        return f"{node.name} must return an object (a dict) itself, not from a function inside it"
    return Handler(node)


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _bound_at_top(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                for target in targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            yield part.id
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
            case _:
                continue
