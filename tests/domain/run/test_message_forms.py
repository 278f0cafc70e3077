"""What anybody sends becomes a message of its verb, or words on why it is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.run.message_forms import (
    EXAMPLES,
    SHORT_ANSWERS,
    Misread,
    Unreadable,
    named,
    read_message,
    unknown_verb,
)
from perdure.domain.run.messages import (
    MESSAGES,
    VERBS,
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Stop,
    size_refusal,
)


@pytest.mark.parametrize(
    ("verb", "given_values", "message"),
    [
        ("pause", [], Pause()),
        ("pause", [None], Pause()),
        ("stop", [{}], Stop(mode="graceful")),
        ("stop", ["now"], Stop(mode="now")),
        ("add_input", ["also this"], AddInput(text="also this")),
        ("amend", ["shorter"], Amend(guidance="shorter")),
        ("escalate", ["look"], Escalate(note="look")),
        ("answer", [{"gate": "g1", "choice": "a"}], Answer(gate="g1", choice="a")),
        ("answer", [Answer(gate="g1", text="b")], Answer(gate="g1", text="b")),
    ],
)
def test_a_message_is_read(verb: str, given_values: list[object], message: AnyMessage) -> None:
    assert read_message(verb, given_values) == message


@pytest.mark.parametrize(
    ("verb", "given_values", "why"),
    [
        (
            "answer",
            [{"gate": "g1", "choise": "a"}],
            "`choise` is no field (did you mean `choice`?)",
        ),
        ("answer", [{}], "`gate` is missing"),
        ("answer", ["yes"], 'found the text "yes" where an object belongs'),
        ("add_input", [""], 'found the text "" where an object belongs'),
        ("pause", [{}, {}], "it takes one object, 2 values came"),
        ("pause", [Unreadable("sealed")], "sealed"),
        ("pause", [{"by": "x" * 300}], "`by`: found"),
        ("amend", [{"a": 1, "b": 2, "c": 3, "d": 4}], "; and 1 more"),
        ("stop", [{"mode": {"x": 1}}], "`mode`: found an object of 1"),
    ],
)
def test_what_is_no_message_is_told_in_words(
    verb: str, given_values: list[object], why: str
) -> None:
    read = read_message(verb, given_values)
    assert isinstance(read, Misread)
    assert why in read.why
    assert read.why.endswith(f"; send {EXAMPLES[verb]}")


@pytest.mark.parametrize(
    ("verb", "given_value"),
    [
        ("pause", {f"a{number}": 1 for number in range(40_000)}),
        ("amend", {"remove": ["x"] * 40_000}),
        ("add_input", {"ref": [{"x": 1}] * 20_000}),
    ],
    ids=["fields", "a list", "deeper"],
)
def test_a_crowd_of_wrong_values_is_not_looked_at_one_by_one(
    verb: str, given_value: object
) -> None:
    read = read_message(verb, [given_value])
    assert isinstance(read, Misread)
    assert read.why == f"it holds more than 32,768 values; send {EXAMPLES[verb]}"


def test_no_amendment_that_a_run_carries_is_a_crowd() -> None:
    for count, is_carried in ((21_000, True), (22_000, False)):
        message = read_message("amend", [{"metadata": {"ones": [1] * count}}])
        assert isinstance(message, Amend)
        assert (size_refusal(message) is None) == is_carried


@pytest.mark.parametrize("choice", SHORT_ANSWERS)
@pytest.mark.parametrize(
    ("given_value", "answer"),
    [
        ("g1-7f3a", {"gate": "g1-7f3a"}),
        (
            {"gate": "g2-aaaa", "text": "why", "by": "me"},
            {"gate": "g2-aaaa", "text": "why", "by": "me"},
        ),
    ],
    ids=["a name", "an object"],
)
def test_a_short_answer_is_an_answer(choice: str, given_value: object, answer: dict) -> None:
    assert read_message(choice, [given_value]) == Answer(choice=choice, **answer)


@pytest.mark.parametrize("choice", SHORT_ANSWERS)
@pytest.mark.parametrize(
    "values", [[], [None], [""], [7], ["g1", "g2"], [{"choice": "deny", "gate": "g1"}]]
)
def test_a_short_answer_without_a_gate_is_refused(choice: str, values: list[object]) -> None:
    read = read_message(choice, values)
    assert isinstance(read, Misread)
    assert read.why.endswith(f"; send {EXAMPLES[choice]}")


def test_every_verb_has_a_form_and_an_example() -> None:
    assert set(MESSAGES) == set(VERBS)
    assert set(VERBS) < set(EXAMPLES)


def test_a_name_that_nobody_knows_is_told_with_the_nearest() -> None:
    assert "(did you mean `resume`?)" in unknown_verb("resum")
    assert "did you mean" not in unknown_verb("xyz")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(verb=st.sampled_from([*VERBS, *SHORT_ANSWERS]), values=st.lists(JSON, max_size=3))
def test_reading_never_raises(verb: str, values: list[object]) -> None:
    read = read_message(verb, values)
    assert isinstance(read, MESSAGES.get(verb, Answer) | Misread)


@given(st.text())
def test_a_name_fits_one_line(name: str) -> None:
    shown = named(name)
    assert shown and shown.isprintable() and len(shown) <= 60
    assert isinstance(unknown_verb(name), str)
