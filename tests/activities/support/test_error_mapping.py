"""What the decorator of every step relies on."""

import importlib
import inspect
import pkgutil
from typing import get_type_hints

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

import perdure.activities
from perdure.activities.support.error_mapping import translated
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.run.message_forms import Misread


def _steps() -> list[tuple[str, dict[str, type]]]:
    """The types of every activity by name."""
    found: dict[str, dict[str, type]] = {}
    for module in pkgutil.walk_packages(perdure.activities.__path__, "perdure.activities."):
        for _, made in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            for name, method in inspect.getmembers(made, inspect.isfunction):
                if hasattr(method, "__temporal_activity_definition"):
                    found[name] = get_type_hints(method)
    return sorted(found.items())


@pytest.mark.parametrize(
    "types", [pytest.param(types, id=name) for name, types in _steps() if len(types) > 1]
)
def test_what_a_step_is_given_is_a_request_and_what_it_gives_is_none(
    types: dict[str, type],
) -> None:
    """The converter tells the two apart by that: an input that is lost ends its step."""
    for name, given in types.items():
        if name != "return":
            assert issubclass(given, ActivityMessage)
            assert given.__name__.endswith("Request")
    assert not getattr(types["return"], "__name__", "").endswith("Request")


async def test_a_step_whose_input_is_lost_ends_for_good_and_says_what_is_lost() -> None:
    @translated
    async def step(_: object) -> str:
        raise AssertionError("it has nothing to work with")

    with pytest.raises(ApplicationError, match="blob 4711 is not there") as ended:
        await ActivityEnvironment().run(step, Misread("blob 4711 is not there"))
    assert ended.value.non_retryable
    assert ended.value.type == "not_found"
