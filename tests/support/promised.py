"""Which tests show a promise: those that the page on promises names, alone or by their file."""

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "promises.md"


@cache
def _named() -> frozenset[str]:
    return frozenset(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", PAGE.read_text(encoding="utf-8")))


def is_promised(test: str) -> bool:
    """Whether a test, by its id, stands on the page."""
    function = test.partition("[")[0]
    return function in _named() or function.partition("::")[0] in _named()
