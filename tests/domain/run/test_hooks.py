"""What a task may say of hooks, what may be an adaptation, and what is refused where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.domain.run.hooks import (
    FAILURES_KEPT,
    VALUES_CHARACTERS,
    HookFailure,
    Hooks,
    adaptation_lines,
    adaptation_problem,
    failures_with,
    unserved_hooks,
    unusable_hooks,
)

SERVED = {"acme.widen": "adapt", "acme.tell": "on_end"}


@pytest.mark.parametrize(
    ("given", "places"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"adapt": "acme.widen"}, {"hooks.adapt": "acme.widen"}, id="a bare name"),
        pytest.param({"on_end": "acme.tell"}, {"hooks.on_end[0]": "acme.tell"}, id="one for many"),
        pytest.param(
            {"on_iteration": ["a.b", {"name": "c.d", "parameters": {"by": 2}}]},
            {"hooks.on_iteration[0]": "a.b", "hooks.on_iteration[1]": "c.d"},
            id="with parameters",
        ),
    ],
)
def test_a_task_names_hooks(given: dict[str, object], places: dict[str, str]) -> None:
    read = Hooks.model_validate(given)
    assert {place: hook.name for place, hook in read.wanted.items()} == places
    assert Hooks.model_validate(read.model_dump(mode="json")) == read


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"adapt": "Acme Widen"}, "pattern", id="a malformed name"),
        pytest.param({"on_end": ["a"] * 9}, "at most 8", id="too many"),
        pytest.param({"on_end": [{"name": "a", "timeout_s": 0}]}, "greater than 0", id="no time"),
        pytest.param({"adapt": {"name": "a", "start": {"": 1}}}, "names of 1 to 60", id="start"),
        pytest.param({"adapt": {"name": "a", "on_error": "ask"}}, "'continue' or 'fail'", id="ask"),
    ],
)
def test_what_a_task_cannot_say(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Hooks.model_validate(given)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param({"least": 4, "of": ["a", None, {"b": True}]}, None, id="nested"),
        pytest.param([4], "an object of named values (found list)", id="a list"),
        pytest.param(None, "an object of named values (found NoneType)", id="nothing"),
        pytest.param({4: 4}, "names of 1 to 60 characters (found '4')", id="a number as name"),
        pytest.param({"x" * 61: 4}, "names of 1 to 60 characters", id="a long name"),
        pytest.param({"a": float("nan")}, "values that JSON can write", id="not a number"),
        pytest.param({"a": {1, 2}}, "values that JSON can write", id="a set"),
        pytest.param({str(n): n for n in range(21)}, "at most 20 values (found 21)", id="many"),
        pytest.param({"a": "x" * 2_000}, "at most 2,000 characters as JSON", id="long"),
    ],
)
def test_what_may_be_an_adaptation(value: object, said: str | None) -> None:
    found = adaptation_problem(value)
    assert found == said if said is None else said in (found or "")


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=50),
            lambda inner: st.lists(inner, max_size=3),
        ),
        max_size=5,
    )
)
def test_what_is_accepted_is_told_in_one_line_each(value: dict[str, object]) -> None:
    if adaptation_problem(value) is None:
        lines = adaptation_lines(value)  # type: ignore[arg-type]
        assert len(lines) == len(value)
        assert sum(map(len, lines)) <= 2 * VALUES_CHARACTERS
        assert not any("\n" in line for line in lines)


@pytest.mark.parametrize(
    ("hooks", "kind", "known", "said"),
    [
        pytest.param({"adapt": "acme.widen"}, "refine", None, [], id="only a worker knows"),
        pytest.param({"adapt": "acme.widen"}, "refine", {"acme.widen"}, [], id="known"),
        pytest.param(
            {"adapt": "acme.widen"}, "agent", None, ["hooks.adapt: only a refine"], id="agent"
        ),
        pytest.param(
            {"on_end": ["acme.tel"]},
            "agent",
            {"acme.tell"},
            ['hooks.on_end[0]: found "acme.tel"'],
            id="unknown",
        ),
    ],
)
def test_what_a_door_refuses(
    hooks: dict[str, object], kind: str, known: set[str] | None, said: list[str]
) -> None:
    found = unusable_hooks(kind, Hooks.model_validate(hooks), known)
    assert [told[: len(start)] for told, start in zip(found, said, strict=True)] == said


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        pytest.param({"adapt": "acme.widen", "on_end": "acme.tell"}, [], id="served"),
        pytest.param({"on_end": "acme.tel"}, ["acme.tell"], id="a typo"),
        pytest.param({"on_end": "acme.widen"}, ["acme.tell"], id="of another kind"),
        pytest.param({"on_iteration": "acme.tell"}, ["serves no hook of kind"], id="none of them"),
    ],
)
def test_what_workers_lack(hooks: dict[str, object], said: list[str]) -> None:
    found = unserved_hooks(Hooks.model_validate(hooks), SERVED)
    assert [words in problem.allowed for problem, words in zip(found, said, strict=True)] == [
        True
    ] * len(said)


def test_the_newest_failures_are_kept() -> None:
    kept: tuple[HookFailure, ...] = ()
    for index in range(FAILURES_KEPT + 3):
        kept = failures_with(kept, HookFailure(kind="on_end", name="a", iteration=index))
    assert [one.iteration for one in kept] == list(range(3, FAILURES_KEPT + 3))
