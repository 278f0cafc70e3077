"""Checks of other packages: entry points `perdure.checks`, and modules named in the settings."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint

from perdure.adapters.plugin_modules import broken_plugin, installed_plugins, plugin_module
from perdure.check_decorator import CustomCheck, custom_check
from perdure.domain.foundation.errors import InvalidInput

GROUP = "perdure.checks"


def plugin_check_names() -> frozenset[str]:
    """The names that installed packages give their checks; nothing is loaded."""
    return frozenset(installed_plugins(group=GROUP).names)


def plugin_checks(modules: Sequence[str] = ()) -> dict[str, CustomCheck]:
    """Load the checks of installed packages and of `modules`, by name.

    An entry point names a function, decorated or not, and its own name is the check's; in a module
    every public function decorated with `@check` counts.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, or a name is taken.
    """
    found: dict[str, CustomCheck] = {}
    for point in sorted(installed_plugins(group=GROUP), key=lambda point: point.name):
        _add(found, _pointed(point))
    for name in modules:
        module = plugin_module(name)
        for _, value in sorted(vars(module).items()):
            if isinstance(value, CustomCheck) and value not in found.values():
                _add(found, value)
    return found


def _pointed(point: EntryPoint) -> CustomCheck:
    origin = f"{point.name} = {point.value}"
    try:
        loaded: object = point.load()
    except Exception as error:
        raise broken_plugin(origin, error) from error
    function = loaded.function if isinstance(loaded, CustomCheck) else loaded
    if not callable(function):
        raise InvalidInput(
            f"The plugin {origin} holds {type(function).__name__}, which is no check.",
            cure="Point it at a function of the output.",
        )
    return custom_check(function, name=point.name)


def _add(found: dict[str, CustomCheck], check: CustomCheck) -> None:
    if check.name in found:
        raise InvalidInput(
            f"Two plugins bring a check named {check.name}.", cure="Rename or remove one of them."
        )
    found[check.name] = check
