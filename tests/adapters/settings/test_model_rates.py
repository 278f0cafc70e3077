"""Rates of models as the settings take them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from perdure.adapters.settings.providers import CallRate, ModelPattern
from perdure.adapters.settings.variables import Settings


def test_they_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_MODEL_RATES", '{"openai:*": 5, "claude-opus-*": 0.5, "x": null}')
    assert Settings.load().model_rates == {"openai:*": 5.0, "claude-opus-*": 0.5, "x": None}


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan"), "often"])
def test_a_rate_that_is_none_is_refused(rate: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[object](CallRate).validate_python(rate)


@pytest.mark.parametrize("pattern", ["", "a b", "claude-[12]", "claude-?", "x" * 101])
def test_a_pattern_that_means_something_else_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[object](ModelPattern).validate_python(pattern)
