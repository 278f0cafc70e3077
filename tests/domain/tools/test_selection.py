"""Access levels and the `tools:` section of a task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.tools.definitions import AccessClass, AccessLevel, ToolDefinition
from perdure.domain.tools.selection import offers, select


def fact(name: str, access: AccessClass = "read") -> ToolDefinition:
    return ToolDefinition(name=name, description="", parameters={}, access=access)


CATALOG = (
    fact("fs.write", "write"),
    fact("fs.edit", "write"),
    fact("fs.read"),
    fact("fs.search"),
    fact("shell.readonly", "execute"),
    fact("web.fetch", "network"),
    fact("human.ask", "person"),
)
LEVELS: tuple[AccessLevel, ...] = ("full", "readonly-shell", "readonly", "minimal")
READONLY = ("fs.read", "fs.search", "human.ask")


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("full", tuple(sorted(tool.name for tool in CATALOG))),
        ("readonly-shell", (*READONLY, "shell.readonly")),
        ("readonly", READONLY),
        ("minimal", ()),
    ],
    ids=LEVELS,
)
def test_levels(level, names):
    assert select(CATALOG, level=level).names == names


@pytest.mark.parametrize(
    ("wishes", "names"),
    [
        ({"allow": ["fs.read"]}, ("fs.read",)),
        ({"allow": ["fs.*"]}, ("fs.edit", "fs.read", "fs.search", "fs.write")),
        ({"allow": ["fs.*"], "deny": ["fs.write"]}, ("fs.edit", "fs.read", "fs.search")),
        ({"deny": ["*"]}, ()),
        ({"allow": []}, ()),
        ({"allow": None, "deny": ["fs.*", "web.*"]}, ("human.ask", "shell.readonly")),
    ],
    ids=["exact", "prefix", "deny wins", "deny all", "an empty list", "no list"],
)
def test_wishes_narrow(wishes, names):
    selection = select(CATALOG, level="full", **wishes)
    assert selection.names == names
    assert selection.problems == ()


def test_approve_and_timeouts_change_the_pinned_fact():
    (tool,) = select(
        CATALOG, level="full", allow=["fs.write"], approve=["fs.*"], timeouts={"fs.write": 5.0}
    ).tools
    assert (tool.needs_approval, tool.timeout_s) == (True, 5.0)


@pytest.mark.parametrize(
    ("timeouts", "seconds"),
    [
        ({"fs.*": 5.0}, 5.0),
        ({"*": 5.0}, 5.0),
        ({"fs.write": 4.0, "fs.*": 5.0}, 4.0),
        ({"*": 3.0, "fs.w*": 4.0, "fs.*": 5.0}, 4.0),
    ],
    ids=["prefix", "all", "exact wins", "longest wins"],
)
def test_timeouts_count_by_pattern_too(timeouts, seconds):
    (tool,) = select(CATALOG, level="full", allow=["fs.write"], timeouts=timeouts).tools
    assert tool.timeout_s == seconds


def test_a_level_is_never_widened_and_says_so():
    selection = select(CATALOG, level="readonly", allow=["fs.write", "fs.raed"])
    assert selection.tools == ()
    assert "access level readonly does not offer" in selection.problems[0]
    assert "Did you mean fs.read?" in selection.problems[1]


@pytest.mark.parametrize(
    ("level", "writes"),
    [("full", True), ("readonly-shell", False), ("readonly", False), ("minimal", False)],
)
def test_only_writing_tools_ask_for_a_copy(level, writes):
    assert select(CATALOG, level=level).writes is writes


PATTERNS = st.lists(st.sampled_from(["fs.*", "*", "fs.read", "shell.readonly", "web.fetch", "x"]))


@given(level=st.sampled_from(LEVELS), allow=PATTERNS, deny=PATTERNS)
def test_no_wish_reaches_outside_the_level(level, allow, deny):
    for tool in select(CATALOG, level=level, allow=allow, deny=deny).tools:
        assert offers(level, tool)


SHARED = ToolDefinition(name="todo.add", description="", parameters={}, shared=True)
AWAY = ToolDefinition(
    name="shell.full", description="", parameters={}, access="execute", unavailable="not allowed"
)


@pytest.mark.parametrize(
    ("belongs", "level", "names"),
    [
        (True, "full", ("memory.search", "todo.add")),
        (True, "readonly", ("todo.add",)),
        (True, "minimal", ()),
        (False, "full", ("memory.search",)),
        (False, "readonly", ()),
    ],
)
def test_what_is_shared_is_for_runs_that_belong_and_memory_for_full(belongs, level, names):
    catalog = (SHARED, AWAY, fact("memory.search"))
    selection = select(catalog, level=level, belongs=belongs)
    assert (selection.names, selection.problems) == (names, ())


@pytest.mark.parametrize(
    ("allow", "said"),
    [
        ("todo.add", "tools.allow: todo.add is for runs of roles"),
        ("shell.full", "tools.allow: shell.full cannot be used on this worker: not allowed"),
    ],
)
def test_what_is_asked_for_by_name_and_cannot_be_had_says_why(allow, said):
    (problem,) = select((SHARED, AWAY), level="full", allow=[allow]).problems
    assert problem.startswith(said)
    assert select((SHARED, AWAY), level="full", allow=[f"{allow[:4]}*"]).problems == ()
