"""Checks of other packages: loaded by entry point and by module, refused when they are none."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
from temporalio import activity

from perdure import CheckResult, check
from perdure.adapters import plugins
from perdure.adapters.plugin_modules import CHECK_GROUP
from perdure.domain.foundation.errors import InvalidInput
from perdure.temporal import activity_check


@check(name="acme.long")
def long_enough(output: str, least: int = 3) -> bool:
    """Whether there are enough words."""
    return len(output.split()) >= least


def plain(output: str) -> CheckResult:
    """A function as an entry point names it."""
    return CheckResult(0.5, output)


async def later(output: str) -> bool:
    """Nothing would await it."""
    return True


weighed = activity_check(activity.defn(name="weigh")(later), task_queue="scales")
nowhere = activity_check(weighed.function)


def test_an_asynchronous_check_is_refused_where_it_is_written(install: Callable[..., None]) -> None:
    with pytest.raises(InvalidInput, match="an asynchronous function") as found:
        check(name="acme.later")(later)
    assert "Write it with `def`" in str(found.value)
    install(late="acme_checks:later")
    with pytest.raises(InvalidInput, match="check late is an asynchronous function"):
        plugins.plugin_checks()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that packages with these entry points and such modules are installed."""
    module = ModuleType("acme_checks")
    vars(module).update(long=long_enough, also=long_enough, plain=plain, later=later, number=3)
    others = ModuleType("acme_activities")
    vars(others).update(weighed=weighed, nowhere=nowhere)
    for one in (module, others):
        monkeypatch.setitem(sys.modules, one.__name__, one)

    def points(**named: str) -> None:
        found = [EntryPoint(name, value, CHECK_GROUP) for name, value in named.items()]
        monkeypatch.setattr(plugins, "installed_plugins", lambda group: found)

    points()
    return points


def test_a_modules_decorated_functions_are_its_checks(install: Callable[..., None]) -> None:
    found = plugins.plugin_checks(["acme_checks"])
    assert list(found) == ["acme.long"]
    assert found["acme.long"].verdict("a b", {"least": 2}) is True
    assert long_enough("a b") is False


def test_an_entry_points_name_is_the_checks(install: Callable[..., None]) -> None:
    install(short="acme_checks:plain", other="acme_checks:long")
    found = plugins.plugin_checks()
    assert sorted(found) == ["other", "short"]
    assert found["short"].verdict("x", {}) == CheckResult(0.5, "x")


def test_an_entry_point_may_name_an_activity(install: Callable[..., None]) -> None:
    install(weight="acme_activities:weighed", none="acme_activities:nowhere")
    with pytest.raises(InvalidInput, match="the check none, without a queue"):
        plugins.plugin_checks()
    install(weight="acme_activities:weighed")
    found = plugins.plugin_checks()["weight"]
    assert (found.name, found.activity) == ("weight", weighed.activity)


def test_a_check_that_is_installed_may_be_named_in_the_settings_too(
    install: Callable[..., None],
) -> None:
    install(**{"acme.long": "acme_checks:long"})
    found = plugins.plugin_checks(["acme_checks"])
    assert list(found) == ["acme.long"]
    assert found["acme.long"].function is long_enough.function


def test_a_check_of_the_program_takes_no_name_of_a_plugins() -> None:
    known = {"acme.long": long_enough}
    again = check(name="acme.long")(long_enough.function)
    assert plugins.with_own_checks(known, {"acme.long": again})["acme.long"] is again
    with pytest.raises(InvalidInput, match=r"A plugin brings a check named acme\.long, and so"):
        plugins.with_own_checks(known, {"acme.long": check(name="acme.long")(plain)})


@pytest.mark.parametrize(
    ("points", "modules", "said"),
    [
        pytest.param({"a": "acme_checks:number"}, (), "holds int", id="no function"),
        pytest.param({"a": "acme_checks:missing"}, (), "cannot be loaded", id="not there"),
        pytest.param({}, ("no_such_module_here",), "cannot be loaded", id="no module"),
        pytest.param(
            {"acme.long": "acme_checks:plain"}, ("acme_checks",), "Two plugins", id="name taken"
        ),
        pytest.param({"A B": "acme_checks:plain"}, (), "is malformed", id="name"),
    ],
)
def test_what_is_no_check_is_refused(
    install: Callable[..., None], points: dict[str, str], modules: tuple[str, ...], said: str
) -> None:
    install(**points)
    with pytest.raises(InvalidInput, match=said):
        plugins.plugin_checks(modules)


def test_every_parameter_is_annotated() -> None:
    def bare(output: str, least) -> bool:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
        return True

    with pytest.raises(InvalidInput, match="no type annotation"):
        check()(bare)


def test_a_check_takes_an_output() -> None:
    with pytest.raises(InvalidInput, match="takes no output"):
        check(name="none")(lambda: True)
