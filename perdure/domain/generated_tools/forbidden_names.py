"""Names that no tool needs: those that reach frames and classes behind the language.

Names are judged by what they resolve to: `re.compile` is a function of `re`, `compile` a builtin.
This is early feedback for whoever writes the tool; the boundary is the sandbox.
"""

import ast
import re
from collections.abc import Iterator

from perdure.domain.generated_tools.name_resolution import BUILTINS, Names
from perdure.domain.generated_tools.naming import namespace

EVERYWHERE = frozenset(
    {
        "base64",
        "bisect",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "re",
        "typing",
        "unicodedata",
    }
)
_MORE: dict[str, frozenset[str]] = {
    "clock": frozenset({"time"}),
    "random": frozenset({"random"}),
    "sample": frozenset({"random"}),
    "simulate": frozenset({"random"}),
    "time": frozenset({"time"}),
}


def importable(name: str) -> frozenset[str]:
    """The modules that a tool of this name may import."""
    return EVERYWHERE | _MORE.get(namespace(name), frozenset())


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
    "operator.attrgetter",
    "operator.methodcaller",
    # It evaluates annotations that are texts.
    "typing.get_type_hints",
}
# Modules that other modules of CPython hold because they import them.
INNER_MODULES = frozenset(
    {
        "atexit",
        "binascii",
        "builtins",
        "codecs",
        "ctypes",
        "enum",
        "importlib",
        "inspect",
        "io",
        "operator",
        "os",
        "posix",
        "socket",
        "subprocess",
        "sys",
        "threading",
        "types",
        "warnings",
        "weakref",
    }
)
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
# JSON and prose in braces have blanks or quotes where a field has none.
# It never goes back (`*+`), or a long field without an end would take minutes.
_FIELD_ACCESS = re.compile(r"\{(?:[\w\[\]]|\.(?![^\W\d]))*+\.[^\W\d][\w.\[\]!:]*+\}")
_FORMATTING = frozenset({"format", "format_map", "vformat"})


def dangers(module: ast.Module) -> Iterator[str]:
    """What in a tool's code reaches behind the language, one phrase each with its line."""
    names = Names(module)
    for node in ast.walk(module):
        for phrase in _phrases(node, names):
            yield f"line {getattr(node, 'lineno', 1)}: {phrase}"


def _phrases(node: ast.AST, names: Names) -> Iterator[str]:
    for name in _hidden_names(node):
        yield f"{name} is not for tools"
    if isinstance(node, ast.Name | ast.Attribute):
        for origin in sorted(filter(_is_danger, names.origins(node))):
            yield f"{origin.removeprefix(f'{BUILTINS}.')} is not for tools"
    for decorator in _decorators(node):
        if not _plain_decorator(decorator, names):
            yield f"the decorator {ast.unparse(decorator)[:60]} is not for tools"
    yield from _by_form(node)


def _hidden_names(node: ast.AST) -> Iterator[str]:
    """Names behind the language, in every place of the syntax that can hold one."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            held = (name,)
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            held = (name,)
        case ast.MatchClass(kwd_attrs=attributes):
            held = tuple(attributes)
        case ast.ImportFrom(names=aliases):
            held = tuple(alias.name for alias in aliases)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name not in METHOD_DUNDERS:
            held = (name,)
        case ast.Constant(value=str(text)):
            # A text may become a name when the code runs.
            held = tuple(_DUNDER.findall(text))
        case _:
            held = ()
    return (name for name in held if _hidden(name))


def _decorators(node: ast.AST) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


def _by_form(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Global() | ast.Nonlocal():
            yield "global and nonlocal are not for tools: return what you compute"
        case ast.ImportFrom(names=aliases) if any(alias.name == "*" for alias in aliases):
            yield "importing * is not for tools"
        case ast.Constant(value=str(text)) if _FIELD_ACCESS.search(text):
            yield "a format text looks into its values; format the values themselves"
        # A format that is computed could hold fields which nobody has seen.
        case ast.Attribute(value=value, attr=attr) if attr in _FORMATTING:
            if not isinstance(value, ast.Constant):
                yield f"{attr} of a text that is computed is not for tools; use an f-string"
        case ast.Call(func=ast.Name(id="type"), args=args, keywords=keywords):
            # With one argument it only tells the type of a value.
            if len(args) > 1 or keywords:
                yield "making classes with type(...) is not for tools"
        case _:
            return


def _is_danger(origin: str) -> bool:
    """Whether an origin is dangerous itself, or a module that another one happens to hold."""
    if origin in DANGERS:
        return True
    first, *inner = origin.split(".")
    return first != BUILTINS and not INNER_MODULES.isdisjoint(inner)


def _hidden(name: str) -> bool:
    return name in HIDDEN_ATTRIBUTES or (name.startswith("__") and name not in PLAIN_DUNDERS)


def _plain_decorator(decorator: ast.expr, names: Names) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    origins = names.origins(called)
    # Without an origin it is the tool's own, and could put other code in place of what was judged.
    return bool(origins) and origins <= DECORATORS
