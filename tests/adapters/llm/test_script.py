"""The script format: what it takes, and how it says what is wrong."""

import pytest

from perdure.adapters.llm.script import parse_script
from perdure.domain.foundation.errors import InvalidInput

# The example of docs/scripted-model.md.
CONTRACT_EXAMPLE = """
price: {input_per_million: 3.0, output_per_million: 15.0}
defaults: {usage: {input_tokens: 100, output_tokens: 50}}
replies:
  - when: {role: executor, iteration: 1}
    text: "first draft"
    usage: {input_tokens: 1200, output_tokens: 300, cache_read_tokens: 0, cache_write_tokens: 0}
  - when: {role: evaluator}
    json: {dimensions: [{name: tone, score: 0.6, gap: stiff}], findings: []}
  - tool_calls: [{name: fs.read, arguments: {path: README.md}}]
    text: "let me look"
  - error: {status: 429, retry_after: 1}
  - text: "slow"
    delay_s: 3
    stop_reason: max_tokens
exhausted: error
"""


def test_the_example_of_the_contract_is_valid() -> None:
    script = parse_script(CONTRACT_EXAMPLE)
    assert len(script.replies) == 5
    assert script.replies[1].json_value == {
        "dimensions": [{"name": "tone", "score": 0.6, "gap": "stiff"}],
        "findings": [],
    }


@pytest.mark.parametrize("word", ["timeout", "connection", "context_overflow", "refusal", "cut"])
def test_errors_can_be_named_by_one_word(word: str) -> None:
    failure = parse_script(f"replies: [{{error: {word}}}]").replies[0].failure
    assert failure is not None
    assert failure.kind == word


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("replies: [{texd: a}]", "replies[0].texd", "Did you mean text?"),
        ("replies: [{text: a}, {text: b, times: 0}]", "replies[1].times", "found 0"),
        ("replies: [{text: a, when: {rolle: x}}]", "replies[0].when.rolle", "Did you mean role?"),
        ("replies: [{error: {status: 200}}]", "replies[0].error", "found 200"),
        ("replies: [{error: explosion}]", "replies[0].error", "explosion"),
        ("replies: [{error: {}}]", "replies[0].error", "a status from 400 to 599"),
        ("replies: [{text: a, stop_reason: bored}]", "replies[0].stop_reason", "bored"),
        ("replies: [{when: {role: x}}]", "replies[0]", "one of text, json"),
        ("replies: [{text: a, json: {}}]", "replies[0]", "json alone"),
        ("replies: [{error: timeout, json: {}}]", "replies[0]", "an error alone"),
        ("replies: []", "replies", "at least one"),
        ("price: {input_per_million: -1}\nreplies: [{text: a}]", "price.input_per_million", "-1"),
        ("replies: [{text: a}]\nexhausted: maybe", "exhausted", "maybe"),
        ("{}", "replies", "required"),
        ("replies: [{text: a", "cannot be read as YAML", "line 1"),
    ],
)
def test_problems_name_their_place(text: str, path: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_script(text, source="demo.yaml")
    assert "demo.yaml" in str(caught.value)
    assert path in str(caught.value)
    assert hint in str(caught.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_script("replies: [{text: 1}, {delay_s: -1, text: a}]\nexhausted: x")
    for path in ("replies[0].text", "replies[1].delay_s", "exhausted"):
        assert path in str(caught.value)


TWO_WORKERS = """
replies:
  - when: {role: manager}
    json: {decision: delegate, delegations: [{worker: a}, {worker: b}]}
"""


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            "  - {when: {role: worker}, text: x}\n  - {when: {role: worker}, text: y}", id="role"
        ),
        pytest.param("  - {text: x}\n  - {text: y}", id="anyone"),
    ],
)
def test_replies_that_any_of_several_workers_may_take_are_refused(more: str) -> None:
    with pytest.raises(InvalidInput, match=r"replies\[1\].when.*parallel") as caught:
        parse_script(TWO_WORKERS + more)
    assert "replies[2].when" in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            "  - {when: {worker: a}, text: x}\n  - {when: {contains: soup}, text: y}", id="labelled"
        ),
        pytest.param("  - {when: {role: worker}, text: x, times: 9}", id="the same for all"),
        pytest.param("  - {when: {role: evaluator}, text: x}\n  - {text: y}", id="one for workers"),
    ],
)
def test_replies_that_can_be_told_apart_are_taken(more: str) -> None:
    assert parse_script(TWO_WORKERS + more).replies
