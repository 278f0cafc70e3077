"""A Python that we start imports nothing from the folder that its starter happens to be in.

There may be a `types.py` or a folder `temporalio` of the user's own, which would be taken for it.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Module, modules

APART = ("'-P'", "'-I'")


def starts(module: Module) -> Iterator[tuple[int, list[str]]]:
    """Where this Python is started once more, and the words that follow it."""
    for node in ast.walk(module.tree):
        words = node.args if isinstance(node, ast.Call) else getattr(node, "elts", ())
        for at, word in enumerate(words):
            if ast.unparse(word) == "sys.executable" and words[at + 1 :]:
                rest = [ast.unparse(one) for one in words[at + 1 :]]
                yield word.lineno, rest


@pytest.mark.long
def test_a_python_that_is_started_is_apart_from_the_folder() -> None:
    found = [
        (f"{module.path}:{line}", words)
        for module in modules("perdure", "workflows", "activities")
        for line, words in starts(module)
    ]
    assert len(found) >= 8
    assert [start for start in found if not any(flag in " ".join(start[1]) for flag in APART)] == []
