"""What people are asked on behalf of a tool call."""

import pytest

from perdure.domain.turns.tool_call_rules import RequestedCall
from perdure.domain.turns.tool_questions import approval_prompt, question_of


def call(**arguments: object) -> RequestedCall:
    return RequestedCall.model_validate(
        {"id": "c", "name": "shop.pay", "args_hash": "a" * 64, "arguments": arguments}
    )


def test_an_approval_shows_the_exact_call_and_its_hash():
    prompt = approval_prompt(call(), "amount: 5\nto: Zoë", left_out=0, run="r-1")
    assert prompt.startswith("Approve shop.pay?")
    assert "amount: 5" in prompt and "Zoë" in prompt
    assert "not shown" not in prompt
    assert prompt.endswith("hash of the call: " + "a" * 64)


def test_what_is_left_out_is_told_with_how_to_read_it():
    prompt = approval_prompt(call(), "text: xxx", left_out=6_000, run="r-1")
    assert "6,000 more characters, not shown here" in prompt
    assert "perdure gates r-1 --full" in prompt
    assert prompt.endswith("a" * 64)


@pytest.mark.parametrize(
    ("arguments", "text", "choices"),
    [
        ({"question": "Tea?"}, "Tea?", ()),
        ({"question": "Which?", "choices": ["a", 2]}, "Which?", ("a", "2")),
        ({"question": "Which?", "choices": "a"}, "Which?", ()),
        ({"question": "Which?", "choices": list(range(20))}, "Which?", tuple("0123456789")),
        ({"question": "  "}, '{"question": "  "}', ()),
        ({"other": 1}, '{"other": 1}', ()),
        ({}, "{}", ()),
    ],
    ids=["text", "choices", "no list", "many", "blank", "none", "empty"],
)
def test_a_question(arguments, text, choices):
    question = question_of(call(**arguments))
    assert (question.text, question.choices) == (text, choices)
