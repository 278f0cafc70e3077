"""How a role's models are called: what can be asked, and what a model can follow."""

import pytest
from pydantic import ValidationError

from perdure.domain.llm.call_settings import CallSettings, reply_limit
from perdure.domain.llm.requests import ModelProfile

OLD = ModelProfile(name="old", price=None, thinking=(), effort=(), sampling=True)
TOKENS = ModelProfile(name="mid", price=None, thinking=("off", "tokens"), effort=("low", "high"))
NEW = ModelProfile(name="new", price=None, sampling=False)


def settings(**given: object) -> CallSettings:
    return CallSettings.model_validate(given)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (False, "off"),
        (True, "adaptive"),
        ("off", "off"),
        ("adaptive", "adaptive"),
        (2_048, 2_048),
        (None, None),
    ],
    ids=repr,
)
def test_a_switch_of_yaml_is_a_way_to_think(given: object, read: object) -> None:
    assert settings(thinking=given).thinking == read


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"thinking": 100}, "greater than or equal to 1024"),
        ({"thinking": "much"}, "adaptive"),
        ({"effort": "enormous"}, "xhigh"),
        ({"temperature": 3}, "less than or equal to 2"),
        ({"thinking": "adaptive", "temperature": 1}, "takes no `temperature`"),
        ({"thinking": 4_000, "max_output_tokens": 4_000}, "must be less than `max_output_tokens`"),
    ],
    ids=["too few tokens", "no way", "no effort", "too hot", "thinks and samples", "no answer"],
)
def test_what_cannot_be_asked_is_said(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(**given)


@pytest.mark.parametrize(
    ("given", "card", "unable"),
    [
        pytest.param({"thinking": "adaptive", "effort": "max"}, NEW, (), id="nobody knows"),
        pytest.param({"temperature": 0.1}, NEW, ("temperature",), id="no temperature"),
        pytest.param({"thinking": "adaptive"}, TOKENS, ("thinking",), id="another way"),
        pytest.param({"thinking": 2_000, "effort": "low"}, TOKENS, (), id="what it can"),
        pytest.param({"effort": "max"}, TOKENS, ("effort",), id="less effort"),
        pytest.param({"thinking": 2_000, "effort": "low"}, OLD, ("thinking", "effort"), id="none"),
        pytest.param({"thinking": "off", "temperature": 1}, OLD, (), id="it never thinks"),
    ],
)
def test_what_a_model_cannot_follow(given, card: ModelProfile, unable: tuple[str, ...]) -> None:
    asked = settings(**given)
    found = dict(asked.problems_with(card))
    assert tuple(found) == unable
    assert all(card.name in why for why in found.values())
    left = asked.within(card)
    assert not dict(left.problems_with(card))
    assert all(getattr(left, name) is None for name in unable)


@pytest.mark.parametrize(
    ("asked", "known", "refused"),
    [
        pytest.param("1h", None, False, id="its provider says"),
        pytest.param("1h", ("5m", "1h"), False, id="it can"),
        pytest.param("1h", (), True, id="it cannot"),
        pytest.param("5m", (), False, id="what is usual"),
    ],
)
def test_an_hour_of_cache_is_asked_of_those_who_have_it(
    asked: str, known: tuple[str, ...] | None, refused: bool
) -> None:
    card = ModelProfile.model_validate({"name": "m", "price": None, "cache": known})
    assert (dict(settings(cache=asked).problems_with(card)) != {}) is refused
    assert settings(cache=asked).within(card).cache == (None if refused else asked)
    assert settings(cache=asked).manner == settings(cache=asked)


def test_a_model_that_cannot_think_is_not_told_to_stop() -> None:
    assert settings(thinking="off").within(OLD).manner is None


def test_the_limit_alone_says_nothing_of_the_manner() -> None:
    assert settings(max_output_tokens=100).manner is None
    assert settings(max_output_tokens=100, effort="low").manner == settings(effort="low")


def test_a_reply_is_as_long_as_asked_and_as_the_model_can() -> None:
    card = ModelProfile(name="m", price=None, max_output=10_000)
    assert reply_limit(card, wanted=500, seconds=60) == 500
    assert reply_limit(card, wanted=500, seconds=60, raised=2) == 2_000
    assert reply_limit(card, wanted=None, seconds=1_000) == 10_000
    assert reply_limit(card, wanted=None, seconds=1_000, most=40) == 40
