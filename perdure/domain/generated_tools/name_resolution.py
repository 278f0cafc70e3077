"""What a name in a tool's code stands for: a builtin, something imported, or the tool's own.

Order of execution is not followed: a name stands for everything that is ever bound to it in its
scope, so an alias is seen wherever it is made.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

BUILTINS = "builtins"
OWN = ""
# Hostile code can make name resolution explode; the limit counts steps because no clock is here.
MOST_STEPS = 200_000

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = Function | ast.ClassDef | ast.Module | Comprehension


@dataclass(frozen=True, slots=True)
class Scope:
    """The names bound in one scope: dotted origins known at once, and expressions to look up."""

    parent: "Scope | None" = None
    known: dict[str, set[str]] = field(default_factory=dict)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)

    def bind(self, name: str, origin: str) -> None:
        """Note that a name may stand for a dotted origin, or for something of the tool's own."""
        self.known.setdefault(name, set()).add(origin)

    def assign(self, name: str, value: ast.expr) -> None:
        """Note that a name may stand for the value of an expression."""
        self.known.setdefault(name, set())
        self.values.setdefault(name, []).append(value)


class Tangled(Exception):
    """Aliases lead to aliases more often than any tool needs."""


class Names:
    """The scopes of a module, and what every name and attribute in it resolves to."""

    def __init__(self, module: ast.Module) -> None:
        self._of: dict[ast.AST, Scope] = {}
        self._steps = MOST_STEPS
        root = Scope()
        self._enter(module, root)
        self._walk(module, root)

    def origins(self, node: ast.expr) -> set[str]:
        """The dotted origins that an expression may stand for; own values are left out.

        Raises:
            Tangled: aliases of aliases take too long to follow.
        """
        return {origin for origin in self._resolve(node, frozenset()) if origin != OWN}

    def _resolve(self, node: ast.expr, seen: frozenset[ast.expr]) -> set[str]:
        self._steps -= 1
        if self._steps <= 0:
            raise Tangled
        if node in seen:
            return set()  # an alias of itself adds nothing
        match node:
            case ast.Name(id=name):
                return self._name(name, self._of.get(node), seen | {node})
            case ast.Attribute(value=value, attr=attr):
                found = self._resolve(value, seen | {node})
                return {f"{origin}.{attr}" for origin in found if origin} or {OWN}
            case ast.NamedExpr(value=value):
                return self._resolve(value, seen)
            case ast.IfExp(body=body, orelse=orelse):
                return self._resolve(body, seen) | self._resolve(orelse, seen)
            case ast.BoolOp(values=values):
                return {one for value in values for one in self._resolve(value, seen)}
            case _:
                return {OWN}

    def _name(self, name: str, scope: Scope | None, seen: frozenset[ast.expr]) -> set[str]:
        while scope is not None:
            if name in scope.known:
                values = scope.values.get(name, ())
                found = {one for value in values for one in self._resolve(value, seen)}
                # A name bound here hides the builtin, even if nobody knows what it stands for.
                return found | scope.known[name] or {OWN}
            scope = scope.parent
        return {f"{BUILTINS}.{name}"}

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, Scoped):
                inner = Scope(parent=scope)
                self._enter(child, inner)
                for outside in _evaluated_outside(child):
                    self._mark(outside, scope)
            # Not overwritten: `_mark` has put defaults and decorators into the scope around.
            self._of.setdefault(child, inner)
            # A function's name is bound around it, only its arguments inside.
            self._collect(child, scope if isinstance(child, Scoped) else inner)
            self._walk(child, inner)

    def _mark(self, node: ast.AST, scope: Scope) -> None:
        # Defaults, annotations and decorators are read in the scope around the function.
        for part in ast.walk(node):
            self._of[part] = scope

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        self._of[node] = scope
        if isinstance(node, Function):
            more = [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
            for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *more]:
                scope.bind(argument.arg, OWN)

    def _collect(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name if alias.asname else alias.name.partition(".")[0]
                    scope.bind(alias.asname or top, top)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    scope.bind(alias.asname or alias.name, f"{module or ''}.{alias.name}")
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._target(target, value, scope)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._target(target, value, scope)
            case _:
                for name in _bound_names(node):
                    scope.bind(name, OWN)

    def _target(self, target: ast.expr, value: ast.expr, scope: Scope) -> None:
        pairs = _paired(target, value)
        for name, bound in pairs:
            if bound is None:
                scope.bind(name, OWN)
            else:
                scope.assign(name, bound)


def _evaluated_outside(node: Scoped) -> Iterator[ast.AST]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from (default for default in node.args.defaults)
            yield from (default for default in node.args.kw_defaults if default is not None)
        case ast.ClassDef():
            yield from (*node.decorator_list, *node.bases, *node.keywords)
        case _:
            return


def _bound_names(node: ast.AST) -> list[str]:
    """Names that a statement binds to values that are the tool's own."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return names_in(target)
        case ast.comprehension(target=target):
            return names_in(target)
        case ast.withitem(optional_vars=ast.expr() as target):
            return names_in(target)
        case _:
            return []


def names_in(target: ast.AST) -> list[str]:
    """The names in a part of the code; of a target those that an assignment to it binds."""
    return [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]


def _paired(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr | None]]:
    match target, value:
        case ast.Name(id=name), _:
            return [(name, value)]
        case (
            ast.Tuple(elts=targets) | ast.List(elts=targets),
            ast.Tuple(elts=values) | ast.List(elts=values),
        ) if len(targets) == len(values):
            return [pair for one, other in zip(targets, values, strict=True)
                    for pair in _paired(one, other)]  # fmt: skip
        case ast.Tuple() | ast.List() | ast.Starred(), _:
            return [(name, None) for name in names_in(target)]
        case _:
            return []
