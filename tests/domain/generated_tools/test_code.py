"""The static stage: what is refused before anything runs, with its code, and what is not."""

import ast

import pytest
from drafts import COUNT, draft, returning

from perdure.domain.generated_tools.code import Checked, check_code
from perdure.domain.generated_tools.forbidden_names import dangers
from perdure.domain.generated_tools.name_resolution import MOST_STEPS
from perdure.domain.generated_tools.rejections import ToolRefused

SHAPE, IMPORT, DANGER = (400, "validation"), (403, "import"), (403, "validation")


def refusal(code: str, name: str = "text.count") -> ToolRefused:
    found = check_code(draft(code, name=name))
    assert isinstance(found, ToolRefused), "it passed"
    assert found.stage == "static"
    assert found.repairable
    return found


SHAPES = {
    "does not parse": ("def handler(:\n", "line 1"),
    "no function": ("X = 1\n", "exactly one handler"),
    "two public functions": (
        "def one(*, text: str):\n    return {'a': text}\n"
        "def two(*, text: str):\n    return {'a': text}\n",
        "found: one, two",
    ),
    "handler twice": (COUNT + COUNT, "exactly one handler"),
    "handler rebound": (COUNT + "handler = len\n", "bound more than once"),
    "positional": ("def handler(text: str):\n    return {'n': text}\n", "by keyword only"),
    "positional only": ("def handler(a, /, *, text: str):\n    return {'n': a}\n", "keyword only"),
    "star arguments": ("def handler(*text: str):\n    return {'n': text}\n", "by keyword only"),
    "star keywords": ("def handler(**text: str):\n    return {'n': text}\n", "by keyword only"),
    "no return": ("def handler(*, text: str):\n    print(text)\n", "must return"),
    "returns nothing": ("def handler(*, text: str):\n    return None\n", "must return"),
    "returns inside only": (
        "def handler(*, text: str):\n    def _f():\n        return {'n': text}\n    _f()\n",
        "not from a function inside",
    ),
    "lambda inside only": (
        "def handler(*, text: str):\n    f = lambda: {'n': text}\n    f()\n",
        "must return",
    ),
    "decorated": ("import functools\n@functools.cache\n" + COUNT, "no decorator"),
    "async": ("async def handler(*, text: str):\n    return {'n': text}\n", "async functions"),
    "generator": (returning("text", body="yield text"), "generators"),
    "inheritance": ("class A(dict):\n    pass\n" + COUNT, "inheritance"),
    "metaclass": ("class A(metaclass=type):\n    pass\n" + COUNT, "inheritance"),
    "exception groups": (
        returning("text", body="try:\n    pass\nexcept* ValueError:\n    pass"),
        "except*",
    ),
    "del": (returning("text", body="a = 1\ndel a"), "no del"),
    "runs at once": ("print('x')\n" + COUNT, "imports, definitions and constants"),
    "loop at once": ("while True:\n    pass\n" + COUNT, "imports, definitions and constants"),
    "guarded main": (COUNT + "if __name__ == '__main__':\n    handler(text='')\n", "definitions"),
    "control character": (COUNT + "# \x07\n", "control character"),
    "NUL": (COUNT + "# \x00\n", "control character"),
    "carriage return": (COUNT + "# a\rb\n", "control character"),
    "bidirectional mark": (COUNT + "# \u2028x\n", "control character"),
    "coding cookie": ("# coding: utf-7\n" + COUNT, "read as utf-7"),
    "half a character": (returning("'\ud800' + text"), "half of a character"),
    "look-alike name": (returning("ｅval(text)"), "outside of ASCII"),
    "too long": (COUNT + "#" * 40_000, "at most 32,000"),
    "too deep": (returning("(" * 80 + "text" + ",)" * 80), "deep"),
    "far too deep": (returning("-" * 30_000 + "1"), "code"),
    "too many parts": (returning("[" + "1," * 7_000 + "]"), "parts"),
}


@pytest.mark.parametrize(("code", "said"), SHAPES.values(), ids=SHAPES)
def test_a_shape_that_is_no_tool_is_refused(code: str, said: str) -> None:
    found = refusal(code)
    assert (found.code, found.category) == SHAPE
    assert said in found.message


IMPORTS = {
    "os": "import os\n",
    "a submodule": "import os.path\n",
    "from": "from subprocess import run\n",
    "socket": "import socket as re\n",
    "relative": "from . import x\n",
    "relative module": "from .json import x\n",
    "ctypes among others": "import json, ctypes\n",
    "importlib": "import importlib\n",
    "builtins": "import builtins\n",
    "sys": "import sys\n",
    "chance outside of its namespaces": "import random\n",
    "the clock outside of its namespaces": "import time\n",
}


@pytest.mark.parametrize("code", IMPORTS.values(), ids=IMPORTS)
def test_an_import_outside_of_the_policy_is_refused(code: str) -> None:
    found = refusal(code + COUNT)
    assert (found.code, found.category) == IMPORT
    assert "tools have" in found.message


def test_an_import_inside_of_a_function_is_one() -> None:
    assert refusal(returning("os.name", body="import os")).category == "import"


@pytest.mark.parametrize("name", ["random.pick", "simulate.walk", "sample.rows"])
def test_a_namespace_of_chance_may_import_it(name: str) -> None:
    code = returning("random.randint(0, len(text))", before="import random")
    assert isinstance(check_code(draft(code, name=name)), Checked)


DANGERS = {
    "eval": returning("eval(text)"),
    "exec": returning("1", body="exec(text)"),
    "compile": returning("compile(text, 'a', 'eval')"),
    "open": returning("open(text).read()"),
    "__import__": returning("__import__('os')"),
    "an alias at the top": returning("e(text)", before="e = eval"),
    "an alias of an alias": returning("g(text)", before="e = eval\nf = e\ng = f"),
    "an alias made later": returning("_f(text)", before="def _f(x):\n    return e(x)\ne = eval"),
    "an alias in a walrus": returning("(e := eval)(text)"),
    "an alias in a default": (
        "def handler(*, text: str, e=eval) -> dict:\n    return {'n': e(text)}\n"
    ),
    "an alias in a tuple": returning("b(text)", body="a, b = len, eval"),
    "an alias by choice": returning("(len if text else eval)(text)"),
    "an alias by or": returning("(None or eval)(text)"),
    "an alias in a list": returning("[eval][0](text)"),
    "an alias in a lambda": returning("f()(text)", body="f = lambda: eval"),
    "an alias in a comprehension": returning("[f(text) for f in (eval,)]"),
    "an alias in an argument": returning("list(map(eval, [text]))"),
    "an alias by annotation": returning("e(text)", body="e: object = eval"),
    "getattr": returning("getattr(text, 'upper')()"),
    "setattr": returning("1", body="setattr(text, 'a', 1)"),
    "vars": returning("vars()"),
    "globals": returning("globals()['x']"),
    "builtins by name": returning("__builtins__['eval']"),
    "the loader": returning("__loader__"),
    "a dunder": returning("text.__class__"),
    "a walk over dunders": returning("().__class__.__bases__[0].__subclasses__()"),
    "a frame": returning("text.gi_frame.f_back"),
    "a traceback": returning(
        "1", body="try:\n    pass\nexcept ValueError as e:\n    e.__traceback__.tb_frame"
    ),
    "a pattern": returning("c", body="match text:\n    case str(__class__=c):\n        pass"),
    "a pattern without dunder": returning("c", body="match text:\n    case str(f_globals=c): ..."),
    "a format field": returning("'{0.__class__}'.format(text)"),
    "a format field of no dunder": returning("'{0.real}'.format(text)"),
    "a computed format": returning("text.format(1)"),
    "a format by name": returning("str.format(text, 1)"),
    "a format map": returning("text.format_map({})"),
    "an f-string": returning("f'{text.__class__}'"),
    "a dunder in a text": returning("'__globals__'"),
    "a dunder as a keyword": returning("dict(__class__=text)"),
    "a dunder as an argument": (
        "def handler(*, text: str, __class__: str = '') -> dict:\n    return {'n': text}\n"
    ),
    "a dunder method": "class A:\n    def __getattr__(self, n):\n        return n\n" + COUNT,
    "a dunder import": "from json import __builtins__\n" + COUNT,
    "import of everything": "from json import *\n" + COUNT,
    "a decorator that calls": "@eval\ndef _f():\n    return 1\n" + COUNT,
    "a decorator of its own": "def _d(f):\n    return f\n@_d\ndef _f():\n    return 1\n" + COUNT,
    "a decorator on a class": "@(lambda c: c)\nclass A:\n    x = 1\n" + COUNT,
    "making classes": returning("type('A', (), {})"),
    "global": returning("1", before="N = 0", body="global N\nN = 1"),
    "memory views": returning("memoryview(b'a')"),
    "super": returning("super()"),
    "operator by an alias": returning("h(text)", before="import typing as t\nh = t.get_type_hints"),
}


@pytest.mark.parametrize("code", DANGERS.values(), ids=DANGERS)
def test_what_reaches_behind_the_language_is_refused(code: str) -> None:
    found = refusal(code)
    assert (found.code, found.category) == DANGER
    assert "line" in found.message


def test_a_danger_is_found_whatever_the_scope_calls_it() -> None:
    code = returning(
        "_f(text)", before="def _f(eval):\n    return eval\ndef _g(x):\n    return eval"
    )
    assert "eval" in refusal(code).message


HARMLESS = {
    "the plain tool": COUNT,
    "a method of that name": returning("P.findall(text)", before="import re\nP = re.compile('x')"),
    "a function of that name": returning("compile(text).pattern", before="from re import compile"),
    "an argument of that name": returning("_f(text)", before="def _f(eval):\n    return eval"),
    "a local of that name": returning("open", body="open = text.upper()"),
    "an attribute of that name": returning("json.loads(text)['open']", before="import json"),
    "a constant format": returning("'{} and {:>3}'.format(text, 1)"),
    "braces in a text": returning("'{\"a.b\": 1} {x}' + text"),
    "a type's name": returning("type(text).__name__"),
    "a data class": returning(
        "_P(x=len(text)).x",
        before="from dataclasses import dataclass\n@dataclass\nclass _P:\n    x: int = 0",
    ),
    "a cache": returning(
        "_f(text)", before="from functools import lru_cache\n@lru_cache\ndef _f(x):\n    return x"
    ),
    "its only function": "def count(*, text: str) -> dict:\n    return {'n': len(text)}\n",
    "comments of all scripts": COUNT + "# größer: 数\n",
    "texts of all scripts": returning("text + 'größer: 数'"),
    "a cookie that says what is so": "# coding: utf-8\n" + COUNT,
    "an early way out": returning("1", body="if not text:\n    return None"),
}


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_what_is_harmless_passes(code: str) -> None:
    assert isinstance(check_code(draft(code)), Checked)


def test_aliases_that_multiply_end_in_time() -> None:
    tangle = "a0 = len\n" + "".join(f"a{n + 1} = (a{n} or a{n})\n" for n in range(40))
    assert MOST_STEPS < 2**40
    assert "tangled" in refusal(returning("a40(text)", before=tangle)).message


@pytest.mark.parametrize("part", [".a", "a", ".a[0]", ".", ".aaaaaaaaa"])
def test_a_format_field_without_an_end_takes_no_time(part: str) -> None:
    text = "{0" + part * 200_000
    assert not [*dangers(ast.parse(repr(text)))]
    assert len([*dangers(ast.parse(repr(text + ".real}")))]) == 1
