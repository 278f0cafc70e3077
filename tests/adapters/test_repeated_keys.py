"""Files of operators: a key that is given twice is refused, for one value would win silently."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.adapters.llm.pricing import load_price_sheet
from perdure.adapters.llm.script import parse_script
from perdure.adapters.mcp.server_config import load_book
from perdure.adapters.settings.files import read_settings
from perdure.domain.foundation.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("servers:\n  wiki: {url: 'https://a.io'}\n  wiki: {url: 'https://b.io'}", load_book),
        ("models:\n  gpt: {input: 1}\n  gpt: {input: 2}", load_price_sheet),
        ("log_level: info\n\nlog_level: debug\n", lambda path: read_settings(path, frozenset())),
        ("replies: [{text: a}]\nreplies: []\n", lambda path: parse_script(path.read_text())),
    ],
    ids=["MCP servers", "prices", "settings", "script"],
)  # fmt: skip
def test_a_repeated_key_is_refused_with_its_line(
    text: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "perdure.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"line [23], column .*given twice"):
        read(path)


def test_a_key_is_the_text_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "mcp.yaml"
    path.write_text("servers:\n  on: {url: 'https://a.example'}\n")
    assert list(load_book(path).servers) == ["on"]
