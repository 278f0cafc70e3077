"""The closed table of outcomes and reasons."""

import typing

import pytest

from perdure.domain.evaluation.outcomes import (
    REASONS,
    Outcome,
    explain,
    lifecycle,
    retry_helps,
    run_end,
    with_nothing_to_show,
)

PAIRS = [(outcome, reason) for outcome, reasons in REASONS.items() for reason in reasons]


def test_every_outcome_has_reasons() -> None:
    assert set(REASONS) == set(typing.get_args(Outcome))
    assert len(PAIRS) == 55


@pytest.mark.parametrize(("outcome", "reason"), PAIRS, ids="/".join)
def test_every_reason_has_a_sentence(outcome: Outcome, reason: str) -> None:
    sentence = explain(outcome, reason)
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert explain(outcome, reason, "2 of 3").endswith(" (2 of 3).")


@pytest.mark.parametrize("detail", ["", "2.5 of 3"])
@pytest.mark.parametrize(("outcome", "reason"), PAIRS, ids="/".join)
def test_no_sentence_speaks_of_a_result_that_is_not_there(
    outcome: Outcome, reason: str, detail: str
) -> None:
    sentence = explain(outcome, reason, detail)
    told = with_nothing_to_show(sentence)
    assert "; this is " not in told
    assert ("there is nothing to show yet" in told) == ("; this is " in sentence)
    assert told.endswith(f"({detail})." if detail else ".")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "model_authentication",
            "for Claude ANTHROPIC_API_KEY, for OpenAI OPENAI_API_KEY, for another server what its "
            "entry in PERDURE_PROVIDERS names",
        ),
        ("model_bad_reply", "name a second one in `models`, which takes over"),
        ("model_permission", "The account may not use this model. Check its rights and its credit"),
        ("model_unknown_model", "The provider does not know this model. Check its name"),
        ("model_bad_request", "trying again would not change that"),
        ("model_overloaded", "retries did not heal it"),
        ("model_connection", "retries did not heal it"),
        ("does_not_fit", "The model could not be used"),
    ],
)
def test_a_model_error_is_explained_by_its_code(code: str, words: str) -> None:
    told = explain("failed", "model_error", f"{code}: the provider said so.")
    assert told.endswith(f"{words} ({code}: the provider said so).")
    assert ("retries" in told) == ("retries" in words)


def test_an_unknown_reason_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"outcome stopped has no reason 'bored'; it has stopped"):
        run_end("stopped", "bored")


@pytest.mark.parametrize(
    ("outcome", "stands"),
    [
        ("accepted", "completed"),
        ("best_effort", "completed"),
        ("out_of_budget", "completed"),
        ("unanswered", "completed"),
        ("stopped", "stopped"),
        ("failed", "failed"),
        ("blocked", "failed"),
    ],
)
def test_lifecycle(outcome: Outcome, stands: str) -> None:
    assert lifecycle(outcome) == stands


@pytest.mark.parametrize(
    ("outcome", "reason", "error", "helps"),
    [
        ("failed", "internal", None, True),
        ("failed", "model_error", "model_overloaded: 529", True),
        ("failed", "model_error", "model_bad_request: no such field", False),
        ("failed", "model_error", "model_context_overflow: too long", False),
        ("failed", "invalid_input", None, False),
        ("blocked", "blocked", None, True),
        ("stopped", "stopped", None, False),
        ("accepted", "quality_met", None, False),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_retry_is_offered_where_it_can_help(
    outcome: str, reason: str, error: str | None, helps: bool
) -> None:
    assert retry_helps(outcome, reason, error) is helps
