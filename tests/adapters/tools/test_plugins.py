"""Tools of other packages."""

import sys
from types import ModuleType

import pytest

from perdure.adapters.plugins import plugin_tools, tools_in
from perdure.domain.foundation.errors import InvalidInput
from perdure.extending.tool_decorator import tool


@tool(name="x.one")
def one() -> str:
    """One."""
    return "1"


@tool(name="x.two")
def two() -> str:
    """Two."""
    return "2"


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("a_plugin_for_this_test")
    vars(made).update(second=two, first=one, other=3)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.mark.parametrize(
    "shape", [one, [one], (one,), lambda: one, lambda: [one]],
    ids=["tool", "list", "tuple", "function", "function of list"],
)  # fmt: skip
def test_shapes(shape):
    assert tools_in(shape, origin="test") == [one]


def test_modules_are_searched(module):
    assert plugin_tools([module.__name__]) == (one, two)


@pytest.mark.parametrize("value", [3, "x.one", None, [3]])
def test_other_things_are_refused(value):
    with pytest.raises(InvalidInput, match="is not a tool"):
        tools_in(value, origin="test")


def test_a_missing_module_is_named():
    with pytest.raises(InvalidInput, match="no_such_plugin"):
        plugin_tools(["no_such_plugin"])
