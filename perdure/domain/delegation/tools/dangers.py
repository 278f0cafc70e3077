"""What no tool needs: reaching names, frames and classes behind the language.

Names are judged by what they resolve to: `re.compile` is a function of `re`, `compile` a builtin.
This is early feedback for whoever writes the tool; the boundary is the sandbox.
"""

import ast
import re
from collections.abc import Iterator

from perdure.domain.delegation.tools.scopes import BUILTINS, Names

BUILTIN_DANGERS = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "delattr",
        "dir",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "help",
        "input",
        "locals",
        "memoryview",
        "open",
        "quit",
        "setattr",
        "super",
        "vars",
    }
)
DANGERS = frozenset({f"{BUILTINS}.{name}" for name in BUILTIN_DANGERS}) | {
    "datetime.sys",
    "functools.reduce.__globals__",
    "operator.attrgetter",
    "operator.methodcaller",
    "typing.get_type_hints",
}
HIDDEN_ATTRIBUTES = frozenset(
    {
        "ag_frame",
        "cr_frame",
        "f_back",
        "f_builtins",
        "f_code",
        "f_globals",
        "f_locals",
        "func_code",
        "func_globals",
        "gi_code",
        "gi_frame",
        "mro",
        "tb_frame",
        "tb_next",
    }
)
PLAIN_DUNDERS = frozenset({"__name__", "__init__", "__doc__", "__main__"})
METHOD_DUNDERS = frozenset(
    {
        "__add__",
        "__contains__",
        "__eq__",
        "__ge__",
        "__getitem__",
        "__gt__",
        "__hash__",
        "__init__",
        "__iter__",
        "__le__",
        "__len__",
        "__lt__",
        "__ne__",
        "__post_init__",
        "__repr__",
        "__str__",
    }
)
DECORATORS = frozenset(
    {
        "builtins.classmethod",
        "builtins.property",
        "builtins.staticmethod",
        "dataclasses.dataclass",
        "functools.cache",
        "functools.lru_cache",
    }
)
_DUNDER = re.compile(r"__[A-Za-z]\w*__")
# A field of a format string that looks into its value: `{0.real}`, `{x[a].b}`.
_FIELD_ACCESS = re.compile(r"\{[^{}]*\.\s*[^\W\d]")
_FORMATTING = frozenset({"format", "format_map", "vformat"})


def dangers(module: ast.Module) -> Iterator[str]:
    """What in a tool's code reaches behind the language, one phrase each with its line."""
    names = Names(module)
    for node in ast.walk(module):
        for phrase in (*_by_name(node, names), *_by_form(node, names)):
            yield f"line {getattr(node, 'lineno', 1)}: {phrase}"


def _by_name(node: ast.AST, names: Names) -> Iterator[str]:
    match node:
        case ast.Name(id=name) if _hidden(name):
            yield f"the name {name} is not for tools"
        case ast.Name() | ast.Attribute():
            found = sorted(names.origins(node) & DANGERS)
            if found:
                yield f"{found[0].removeprefix(f'{BUILTINS}.')} is not for tools"
            if isinstance(node, ast.Attribute) and _hidden(node.attr):
                yield f"the attribute {node.attr} is not for tools"
        case ast.MatchClass(kwd_attrs=attributes):
            for name in attributes:
                if _hidden(name):
                    yield f"the pattern reads {name}, which is not for tools"
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            if _hidden(name):
                yield f"the name {name} is not for tools"
        case ast.ImportFrom(names=aliases):
            for alias in aliases:
                if _hidden(alias.name) or alias.name == "*":
                    yield f"importing {alias.name} is not for tools"
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            if _hidden(name) and name not in METHOD_DUNDERS:
                yield f"the name {name} is not for tools"
        case ast.Global() | ast.Nonlocal():
            yield "global and nonlocal are not for tools: return what you compute"
        case _:
            return


def _by_form(node: ast.AST, names: Names) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            hidden = [name for name in _DUNDER.findall(text) if name not in PLAIN_DUNDERS]
            if hidden:
                yield f"a text names {hidden[0]}, which is not for tools"
            elif _FIELD_ACCESS.search(text) and _is_code_like(text):
                yield "a format text looks into its values; format the values themselves"
        case ast.Attribute(value=value, attr=attr) if attr in _FORMATTING:
            if not isinstance(value, ast.Constant):
                yield f"{attr} of a text that is computed is not for tools; use an f-string"
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            for decorator in decorators:
                if not _plain_decorator(decorator, names):
                    yield f"the decorator {ast.unparse(decorator)[:60]} is not for tools"
        case ast.Call(func=ast.Name(id="type"), args=args, keywords=keywords):
            if len(args) > 1 or keywords:
                yield "making classes with type(...) is not for tools"
        case _:
            return


def _hidden(name: str) -> bool:
    return name in HIDDEN_ATTRIBUTES or (name.startswith("__") and name not in PLAIN_DUNDERS)


def _is_code_like(text: str) -> bool:
    # JSON and prose in braces have spaces or quotes where a format field has none.
    return re.search(r"\{[\w.\[\]!:]*\.[^\W\d]\w*[\w.\[\]!:]*\}", text) is not None


def _plain_decorator(decorator: ast.expr, names: Names) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    origins = names.origins(called)
    return bool(origins) and origins <= DECORATORS
