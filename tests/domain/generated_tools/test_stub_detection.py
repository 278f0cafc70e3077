"""The placeholder stage: a tool computes from its inputs, or it is none."""

import ast
from collections.abc import Iterator

import pytest
from drafts import COUNT, draft, returning

from perdure.domain.generated_tools.code import Checked, check_code
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.generated_tools.stub_detection import placeholder_refusal

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def checked(code: str) -> ToolRefused | None:
    found = check_code(draft(code))
    assert isinstance(found, Checked), found
    return placeholder_refusal(found)


STAND_INS = {
    "a constant": returning("'done'"),
    "a constant object": returning("{'a': [1, 2], 'b': None}"),
    "a constant at the top": returning("X", before="X = 'done'"),
    "a function that ignores it": returning("_f()", before="def _f():\n    return 3"),
    "a variable that ignores it": returning("x", body="x = 'a' * 3"),
    "a guard, then a constant": returning("'ok'", body="if not text:\n    raise ValueError('no')"),
    "a function inside that fills a list of its own": returning(
        "a", body="a = [1]\ndef walk(part):\n    a = []\n    a.append(part)\nwalk(text)"
    ),
    "a function inside that ignores it": returning(
        "a", body="a = []\ndef walk():\n    a.append(1)\nwalk()"
    ),
    "it is read for nothing": returning("'ok'", body="unused = len(text)"),
    "an image": returning(f"'{PNG}' + text"),
    "an image as data": returning("'data:image/png;base64,AAAA' + text"),
    "an image in bytes": returning("len(b'\\x89PNG' + text.encode())"),
    "a document": returning("'%PDF-1.4 %EOF' + text"),
    "a document in base64": returning("'JVBERi0xLjQK' + text"),
    "no inputs": "def handler() -> dict:\n    return {'n': 3}\n",
}


@pytest.mark.parametrize("code", STAND_INS.values(), ids=STAND_INS)
def test_a_stand_in_is_refused_for_good(code: str) -> None:
    found = checked(code)
    assert found is not None
    assert (found.stage, found.code) == ("placeholder", 403)
    assert not found.repairable


COMPUTED = {
    "the plain tool": COUNT,
    "by a branch": (
        "def handler(*, text: str) -> dict:\n"
        "    if text.isdigit():\n        return {'n': True}\n    return {'n': False}\n"
    ),
    "by a loop": returning("n", body="n = 0\nfor _ in text:\n    n += 1"),
    "by a list": returning("a", body="a = []\nfor word in text.split():\n    a.append(word)"),
    "by an index": returning("a", body="a = {}\na['x'] = text"),
    "by a function inside": returning("_f()", body="def _f():\n    return text"),
    "by a function inside that fills a list": returning(
        "a", body="a = []\ndef walk(part):\n    for one in part:\n        a.append(one)\nwalk(text)"
    ),
    "by functions inside that call each other": returning(
        "a",
        body="a = {}\ndef put(one):\n    a[one] = 1\ndef walk(one):\n    put(one)\nwalk(text)",
    ),
    "by what fails": returning(
        "x", body="x = 1\ntry:\n    int(text)\nexcept ValueError:\n    x = 2"
    ),
    "by a match": returning("x", body="x = 0\nmatch text:\n    case 'a':\n        x = 1"),
    "by a chain": returning("d", body="a = text\nb = a\nc = b\nd = c"),
    "by a walrus": returning("m", body="if (m := text.strip()):\n    pass"),
    "short text like base64": returning("text + 'iVBORw0KGgo'"),
}


@pytest.mark.parametrize("code", COMPUTED.values(), ids=COMPUTED)
def test_what_computes_passes(code: str) -> None:
    assert checked(code) is None


def test_nested_tries_are_read_once_and_not_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, chain = 25, 60
    # Each round finds one more: the chain is written from its end.
    lines = [f"a{n + 1} = a{n}" for n in reversed(range(chain))] + ["a0 = text"]
    lines += [f"{'  ' * level}try:" for level in range(depth)]
    lines += [f"{'  ' * depth}b{n} = 1" for n in range(chain)]
    for level in reversed(range(depth)):
        lines += [f"{'  ' * level}except ValueError:", f"{'  ' * level}  pass"]
    found = check_code(draft(returning("1", body="\n".join(lines))))
    assert isinstance(found, Checked), found
    nodes, read = len([*ast.walk(found.module)]), 0
    walk = ast.walk

    def counted(node: ast.AST) -> Iterator[ast.AST]:
        nonlocal read
        for part in walk(node):
            read += 1
            yield part

    monkeypatch.setattr(ast, "walk", counted)
    assert placeholder_refusal(found) is not None
    assert read < 4 * depth * nodes
