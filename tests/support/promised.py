"""Which costly tests show a promise: those that the page on promises names.

A test that is named alone is meant with its first case, a file that is named with its first test.
The others of that file show the same promise from more sides.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "promises.md"


@cache
def _named() -> frozenset[str]:
    return frozenset(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", PAGE.read_text(encoding="utf-8")))


def promised(tests: Iterable[str]) -> frozenset[str]:
    """Of tests, by their ids and in the order of their files, one for each name on the page."""
    chosen: dict[str, str] = {}
    for test in tests:
        function = test.partition("[")[0]
        for name in (function, function.partition("::")[0]):
            if name in _named():
                chosen.setdefault(name, test)
    return frozenset(chosen.values())
