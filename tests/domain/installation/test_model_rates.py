"""Which rate a model is called at, and on which queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.installation.model_rates import pattern_of, queue_of_rate, queues_of

RATES = {"openai:*": 5.0, "claude-*": 10.0, "claude-opus-*": 0.5, "claude-opus-5": None, "local": 1}


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        ("openai:gpt-5", "openai:*"),
        ("claude-haiku-5", "claude-*"),
        ("claude-opus-5-5", "claude-opus-*"),
        ("claude-opus-5", "claude-opus-5"),
        ("local", "local"),
        ("azure:gpt-5", None),
        ("Claude-haiku-5", None),
        ("my-claude-haiku-5", None),
    ],
)
def test_the_closest_pattern_says_the_rate(model: str, pattern: str | None) -> None:
    assert pattern_of(model, RATES) == pattern


def test_a_name_is_closer_than_any_pattern() -> None:
    assert pattern_of("a*", {"a*": 1.0, "a**": 2.0}) == "a*"


def test_models_of_one_pattern_share_a_queue() -> None:
    found = queues_of(
        ["claude-haiku-5", "claude-sonnet-5", "claude-opus-6", "azure:x"], RATES, installation="i1"
    )
    assert found["claude-haiku-5"] == found["claude-sonnet-5"] != found["claude-opus-6"]
    assert "azure:x" not in found
    assert found["claude-opus-6"].startswith("perdure-i1-models-claude-opus-")


def test_patterns_that_read_alike_have_queues_of_their_own() -> None:
    queues = {
        queue_of_rate("i", pattern) for pattern in ("a:*", "a-*", "a*", "A*", "*a", "*", "**")
    }
    assert len(queues) == 7


@given(pattern=st.from_regex(r"[^\s?\[\]]{1,100}", fullmatch=True))
def test_any_pattern_makes_a_name_that_a_server_takes(pattern: str) -> None:
    queue = queue_of_rate("c86fcac4", pattern)
    assert len(queue) < 200
    assert set(queue) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert queue_of_rate("c86fcac4", pattern) == queue
