"""Which tool calls run: names, repeats, strikes, volume, filters."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.turns.repeated_tool_calls import (
    SIGNATURES_KEPT,
    ToolCounters,
    note_iteration,
    note_result,
    note_volume_level,
    signature,
)
from perdure.domain.turns.settings import ToolFilter, ToolLoopLevels, ToolsSpec
from perdure.domain.turns.tool_call_rules import (
    PlannedCall,
    RequestedCall,
    ToolPolicy,
    canonical_json,
    normalize_name,
    offered,
    plan_calls,
)

TERMS = (
    ToolPolicy(name="fs.read"),
    ToolPolicy(name="fs.search"),
    ToolPolicy(name="human.ask", person=True),
    ToolPolicy(name="memory.note", meta=True),
    ToolPolicy(name="poll.status", repeat_exempt=True),
    ToolPolicy(name="shop.pay", needs_approval=True, tags=("money", "slow")),
)
NAMES = tuple(term.name for term in TERMS)


def call(name: str, args: str = "a", number: int = 0) -> RequestedCall:
    return RequestedCall(id=f"c{number}", name=name, args_hash=args)


def count_result(tallies: ToolCounters, planned: PlannedCall, result: str, *, max_repeat: int):
    return note_result(
        tallies,
        planned.call.name,
        result_hash=result,
        is_repeat=planned.repeated,
        max_repeat=max_repeat,
    )


def plan(tallies: ToolCounters, *calls: RequestedCall, on_offer=NAMES, max_repeat=3):
    return plan_calls(calls, terms=TERMS, on_offer=on_offer, tallies=tallies, max_repeat=max_repeat)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("fs.read", "fs.read"),
        ("cat", "fs.read"),
        ("FS.Read", "fs.read"),
        ("fs_read", "fs.read"),
        ("fsread", "fs.read"),
        ("fs-READ", "fs.read"),
        ("a_b", "a_b"),
        ("fs.reads", "fs.reads"),
        ("", ""),
    ],
    ids=["exact", "alias", "case", "separator", "no separator", "both", "ambiguous", "other", "no"],
)
def test_names_are_normalised(said, name):
    known = ["fs.read", "a.b", "ab"]
    assert normalize_name(said, known, {"cat": "fs.read"}) == name


def test_an_exact_name_wins_over_an_alias():
    assert normalize_name("cat", ["cat", "fs.read"], {"cat": "fs.read"}) == "cat"


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4))
def test_equal_arguments_have_one_spelling(arguments):
    backwards = dict(reversed(arguments.items()))
    assert canonical_json(arguments) == canonical_json(backwards)
    assert signature("t", canonical_json(arguments)) != signature("u", canonical_json(arguments))


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("fs.read", "run"), ("shop.pay", "approve"), ("human.ask", "ask"), ("nothing", "illegal")],
)
def test_verdicts(name, verdict):
    assert [entry.verdict for entry in plan(ToolCounters(), call(name))] == [verdict]


def test_a_known_tool_that_is_not_on_offer_is_illegal_and_the_others_are_named():
    (entry,) = plan(ToolCounters(), call("fs.read"), on_offer=("fs.search",))
    assert entry.verdict == "illegal"
    assert entry.message == "'fs.read' is not a tool you can call now; available: fs.search"


@pytest.mark.parametrize(("max_repeat", "runs"), [(1, 1), (3, 3), (5, 5)])
def test_more_than_so_many_equal_calls_are_blocked(max_repeat, runs):
    tallies = ToolCounters()
    verdicts = [
        plan(tallies, call("fs.read"), max_repeat=max_repeat)[0].verdict for _ in range(runs + 2)
    ]
    assert verdicts == ["run"] * runs + ["repeat"] * 2


def test_a_blocked_repeat_names_tool_and_count_and_is_not_used():
    tallies = ToolCounters()
    entries = [plan(tallies, call("fs.read"))[0] for _ in range(4)]
    assert "fs.read was already called 3 times" in entries[-1].message
    assert tallies.used == {"fs.read": 3}


@pytest.mark.parametrize(
    ("name", "args"),
    [("poll.status", ["a"] * 9), ("fs.read", [str(index) for index in range(9)])],
    ids=["exempt", "other arguments"],
)
def test_what_is_no_repeat(name, args):
    tallies = ToolCounters()
    assert {plan(tallies, call(name, arg))[0].verdict for arg in args} == {"run"}
    assert tallies.volume == {}


def test_illegal_calls_count_as_used():
    tallies = ToolCounters()
    plan(tallies, call("nothing"), call("nothing", "b"))
    assert tallies.used == {"nothing": 2}


def test_equal_results_of_different_calls_warn():
    tallies = ToolCounters()
    warnings = [
        count_result(tallies, entry, "same", max_repeat=3)
        for index in range(5)
        for entry in plan(tallies, call("fs.search", str(index)))
    ]
    assert warnings[:3] == [None] * 3
    assert warnings[3] == "fs.search has returned this same result 4 times; try something else"


@pytest.mark.parametrize(
    ("planned", "succeeded", "before", "after"),
    [
        (["illegal"], [], 0, 1),
        (["illegal", "illegal", "illegal"], [], 0, 1),
        (["illegal", "run"], ["fs.read"], 1, 2),
        (["run"], ["fs.read"], 1, 0),
        (["run"], [], 1, 1),
        (["run"], ["memory.note"], 1, 1),
        (["repeat"], [], 1, 1),
    ],
    ids=[
        "one strike",
        "one however many",
        "a success beside it heals nothing",
        "an ordinary success heals",
        "an error heals nothing",
        "a meta tool heals nothing",
        "a blocked repeat heals nothing",
    ],
)
def test_strikes(planned, succeeded, before, after):
    tallies = ToolCounters(strikes=before)
    note_iteration(
        tallies, is_illegal="illegal" in planned, succeeded=succeeded, meta={"memory.note"}
    )
    assert tallies.strikes == after


def repeated_calls(count: int, *, same_args: bool) -> ToolCounters:
    """A tool called `count + 1` times, so that `count` calls bring nothing new."""
    tallies = ToolCounters()
    for index in range(count + 1):
        arguments = "a" if same_args else str(index)
        (entry,) = plan(tallies, call("fs.search", arguments), max_repeat=100)
        count_result(tallies, entry, "same", max_repeat=100)
    return tallies


@pytest.mark.parametrize("same_args", [True, False], ids=["arguments", "results"])
@pytest.mark.parametrize(
    ("count", "level"),
    [
        (9, None),
        (10, "warning"),
        (19, "warning"),
        (20, "critical"),
        (29, "critical"),
        (30, "circuit_breaker"),
        (31, "circuit_breaker"),
    ],
)
def test_volume_levels(count, level, same_args):
    reached = note_volume_level(repeated_calls(count, same_args=same_args), ToolLoopLevels())
    assert (reached and reached.level) == level
    assert reached is None or (reached.tool, reached.count) == ("fs.search", count)


def test_each_level_is_named_once():
    tallies = repeated_calls(10, same_args=True)
    assert note_volume_level(tallies, ToolLoopLevels()) is not None
    assert note_volume_level(tallies, ToolLoopLevels()) is None


def test_thirty_different_useful_calls_are_fine():
    tallies = ToolCounters()
    for index in range(60):
        (entry,) = plan(tallies, call("fs.read", str(index)))
        count_result(tallies, entry, str(index), max_repeat=3)
    assert note_volume_level(tallies, ToolLoopLevels()) is None


@pytest.mark.parametrize(
    ("access", "brings_news"),
    [("read", True), ("network", True), ("write", False), ("execute", False)],
)
def test_a_result_as_before_counts_only_for_tools_that_change_nothing(access, brings_news):
    assert ToolPolicy(name="any", access=access).brings_news is brings_news


def test_blocked_calls_count_for_the_volume():
    tallies = ToolCounters()
    for _ in range(11):
        plan(tallies, call("fs.read"), max_repeat=1)
    reached = note_volume_level(tallies, ToolLoopLevels())
    assert reached is not None and reached.level == "warning"


@pytest.mark.parametrize(
    ("rule", "iteration", "succeeded", "names"),
    [
        (ToolFilter(only=("",)), 1, [], NAMES),
        (ToolFilter(only=("fs.",)), 1, [], ("fs.read", "fs.search")),
        (ToolFilter(only=("fs.",), after=3), 2, [], NAMES),
        (ToolFilter(only=("fs.",), after=3), 3, [], ("fs.read", "fs.search")),
        (ToolFilter(only=("fs.",), until=3), 3, [], ("fs.read", "fs.search")),
        (ToolFilter(only=("fs.",), until=3), 4, [], NAMES),
        (ToolFilter(only=(), after=2), 2, [], ()),
        (ToolFilter(only=("shop.",), requires=("fs.read",)), 1, [], NAMES),
        (ToolFilter(only=("shop.",), requires=("fs.read",)), 1, ["fs.read"], ("shop.pay",)),
    ],
    ids=[
        "the empty prefix",
        "by prefix",
        "before it begins",
        "when it begins",
        "while it lasts",
        "after it",
        "none is allowed",
        "what it requires is missing",
        "what it requires succeeded",
    ],
)
def test_the_filter(rule, iteration, succeeded, names):
    tallies = ToolCounters(succeeded=succeeded)
    assert offered(TERMS, [rule], iteration=iteration, tallies=tallies) == names


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        pytest.param([], NAMES, id="no rule"),
        pytest.param([ToolFilter(tags=("money",))], ("shop.pay",), id="by tag"),
        pytest.param([ToolFilter(tags=("mon",))], (), id="a tag is a whole word"),
        pytest.param([ToolFilter(only=("fs.",), tags=("slow",))],
                     ("fs.read", "fs.search", "shop.pay"), id="by prefix or tag"),
        pytest.param([ToolFilter(only=("fs.",)), ToolFilter(only=("fs.s", "shop."))],
                     ("fs.search",), id="what all of them let by"),
        pytest.param([ToolFilter(only=("fs.",)), ToolFilter(tags=("money",))], (),
                     id="nothing is left"),
        pytest.param([ToolFilter(only=("fs.",)), ToolFilter(tags=("money",), after=2)],
                     ("fs.read", "fs.search"), id="one is not yet in force"),
    ],
)  # fmt: skip
def test_several_filters(rules: list[ToolFilter], names: tuple[str, ...]):
    assert offered(TERMS, rules, iteration=1, tallies=ToolCounters()) == names


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param(None, (), id="nothing"),
        pytest.param({"only": ["fs."]}, (ToolFilter(only=("fs.",)),), id="one rule"),
        pytest.param([{"tags": ["money"]}, {"until": 3}],
                     (ToolFilter(tags=("money",)), ToolFilter(until=3)), id="a list"),
    ],
)  # fmt: skip
def test_a_filter_is_one_rule_or_a_list(given: object, kept: tuple[ToolFilter, ...]):
    spec = ToolsSpec.model_validate({"filter": given})
    assert spec.filter == kept
    assert ToolsSpec.model_validate_json(spec.model_dump_json()) == spec


CALLS = st.lists(
    st.tuples(st.sampled_from([*NAMES, "nothing"]), st.sampled_from("abc")), max_size=40
)


@given(calls=CALLS, max_repeat=st.integers(1, 4))
def test_for_any_calls_no_more_than_the_permitted_repeats_run(calls, max_repeat):
    tallies, ran = ToolCounters(), Counter[tuple[str, str]]()
    for name, args in calls:
        (entry,) = plan(tallies, call(name, args), max_repeat=max_repeat)
        assert (entry.verdict == "illegal") == (name == "nothing")
        if entry.verdict not in {"illegal", "repeat"}:
            ran[name, args] += 1
    exempt = {term.name for term in TERMS if term.repeat_exempt}
    assert all(times <= max_repeat for (name, _), times in ran.items() if name not in exempt)
    assert sum(tallies.used.values()) == sum(ran.values()) + sum(
        name == "nothing" for name, _ in calls
    )


def test_the_memory_of_calls_is_bounded():
    tallies = ToolCounters()
    for index in range(SIGNATURES_KEPT + 50):
        plan(tallies, call("fs.read", str(index)))
    assert len(tallies.arguments) == SIGNATURES_KEPT
    assert signature("fs.read", "0") not in tallies.arguments


def test_a_call_whose_arguments_cannot_be_read_is_told_and_not_run():
    tallies = ToolCounters()
    unread = call(NAMES[0]).model_copy(update={"unreadable": "NaN is no number"})
    (planned,) = plan(tallies, unread)
    assert planned.verdict == "unreadable"
    assert "was not run: its arguments cannot be read: NaN is no number." in planned.message
    assert [one.verdict for one in plan(tallies, *[unread] * 3)][-1] == "repeat"
