"""Whose verdicts count again, and whose they were."""

import pytest
from pydantic import TypeAdapter

from perdure.domain.evaluation.judge_cache import (
    CacheScope,
    JudgeSettings,
    KeptVerdict,
    kept,
    scope_of,
)


@pytest.mark.parametrize(
    ("cache", "model", "scope"),
    [
        ("run", "claude-x", "r1"),
        ("installation", "claude-x", ""),
        ("off", "claude-x", None),
        ("run", "scripted:sha256:1", "r1"),
        ("installation", "scripted:sha256:1#judge", "r1"),
        ("off", "scripted:sha256:1", None),
    ],
)
def test_for_whom_a_verdict_counts(cache: CacheScope, model: str, scope: str | None) -> None:
    assert scope_of(cache, run="r1", model=model) == scope


def test_a_bare_off_of_yaml_is_off() -> None:
    assert JudgeSettings.model_validate({"cache": False}).cache == "off"
    with pytest.raises(ValueError, match="cache"):
        JudgeSettings.model_validate({"cache": "always"})
    assert TypeAdapter(CacheScope).validate_python("installation") == "installation"


@pytest.mark.parametrize("text", ['{"dimensions": []}', "no JSON", '{"run": 1}', ""])
def test_a_verdict_that_does_not_say_whose_it_is_counts_for_nobody(text: str) -> None:
    assert kept(text) is None
    assert kept(KeptVerdict(run="r1", reply=text).model_dump_json()) == KeptVerdict(
        run="r1", reply=text
    )
