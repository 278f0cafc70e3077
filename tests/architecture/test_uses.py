"""Whatever the product has, the product uses: nothing is there for tests alone."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.sources import PACKAGES, Module, modules

# Used from outside.
OUTSIDE = {
    "__dir__",  # these two are Python's
    "__getattr__",
    "services_of",  # tests hand doors the parts of an installation that they opened themselves
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _defined(module: Module) -> Iterator[str]:
    """Functions and classes of a module; decorators may make something else of them."""
    for node in module.tree.body:
        if isinstance(node, Definition) and not node.decorator_list:
            yield node.name


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                yield node.id
            case ast.Attribute():
                yield node.attr
            case ast.ImportFrom() | ast.Import():
                yield from (alias.name.rpartition(".")[2] for alias in node.names)
            case ast.Constant(value=str(text)):
                yield re.split("[.:]", text)[-1]  # a command's place, `inspect:list_runs`
            case _:
                pass


def test_nothing_is_there_for_tests_alone() -> None:
    product = modules(*PACKAGES)
    used = {name for module in (*product, *modules("benchmarks")) for name in _named(module.tree)}
    unused = {
        f"{module}.{name}"
        for module in product
        for name in _defined(module)
        if name not in used | OUTSIDE
    }
    assert unused == set()
