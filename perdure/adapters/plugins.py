"""Checks, hooks and tools of other packages: entry points, and modules named in the settings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType

from perdure.adapters.plugin_modules import broken_plugin, installed_plugins, plugin_module
from perdure.adapters.tools.host import AnyTool
from perdure.check_decorator import CustomCheck, custom_check
from perdure.domain.foundation.errors import InvalidInput
from perdure.hook_decorators import Hook
from perdure.tool_decorator import Tool

CHECK_GROUP = "perdure.checks"


def plugin_check_names() -> frozenset[str]:
    """The names that installed packages give their checks; nothing is loaded."""
    return frozenset(installed_plugins(group=CHECK_GROUP).names)


def plugin_checks(modules: Sequence[str] = ()) -> dict[str, CustomCheck]:
    """Load the checks of installed packages and of `modules`, by name.

    An entry point names a function, decorated or not, and its own name is the check's; in a module
    every public function decorated with `@check` counts.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, or a name is taken.
    """
    found: dict[str, CustomCheck] = {}
    for point in sorted(installed_plugins(group=CHECK_GROUP), key=lambda point: point.name):
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
            f"The plugin {origin} holds {type(function).__name__}, which is not a check.",
            cure="Point it at a function of the output.",
        )
    return custom_check(function, name=point.name)


def _add(found: dict[str, CustomCheck], check: CustomCheck) -> None:
    if check.name in found:
        raise InvalidInput(
            f"Two plugins bring a check named {check.name}.", cure="Rename or remove one of them."
        )
    found[check.name] = check


HOOK_GROUP = "perdure.hooks"


def plugin_hook_names() -> frozenset[str]:
    """The names that installed packages give their hooks; nothing is loaded."""
    return frozenset(installed_plugins(group=HOOK_GROUP).names)


def plugin_hooks(modules: Sequence[str] = ()) -> dict[str, Hook]:
    """Load the hooks of installed packages and of `modules`, by name.

    An entry point names a decorated function, and its own name is the hook's; in a module every
    public function decorated with `@adapt`, `@on_iteration` or `@on_end` counts.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, or a name is taken.
    """
    found: dict[str, Hook] = {}
    for point in sorted(installed_plugins(group=HOOK_GROUP), key=lambda point: point.name):
        origin = f"{point.name} = {point.value}"
        try:
            loaded: object = point.load()
        except Exception as error:
            raise broken_plugin(origin, error) from error
        if not isinstance(loaded, Hook):
            raise InvalidInput(
                f"The plugin {origin} holds {type(loaded).__name__}, which is not a hook.",
                cure="Point it at a function decorated with @adapt, @on_iteration or @on_end.",
            )
        _add_hook(found, replace(loaded, name=point.name))
    for name in modules:
        for _, value in sorted(vars(plugin_module(name)).items()):
            if isinstance(value, Hook) and value not in found.values():
                _add_hook(found, value)
    return found


def _add_hook(found: dict[str, Hook], hook: Hook) -> None:
    if hook.name in found:
        raise InvalidInput(
            f"Two plugins bring a hook named {hook.name}.", cure="Rename or remove one of them."
        )
    found[hook.name] = hook


TOOL_GROUP = "perdure.tools"


def has_plugins(modules: Sequence[str] = ()) -> bool:
    """Whether anything besides the built-in tools is installed or named; nothing is loaded."""
    return bool(modules) or bool(installed_plugins(group=TOOL_GROUP))


def plugin_tools(modules: Sequence[str] = ()) -> tuple[AnyTool, ...]:
    """Load the tools of installed packages and of `modules`, in a stable order.

    An entry point names a tool, a sequence of tools, a function that returns them, or a module
    whose public names are searched.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else.
    """
    found: list[AnyTool] = []
    for point in sorted(installed_plugins(group=TOOL_GROUP), key=lambda point: point.name):
        try:
            loaded: object = point.load()
        except Exception as error:
            raise broken_plugin(f"{point.name} = {point.value}", error) from error
        found.extend(tools_in(loaded, origin=f"{point.name} = {point.value}"))
    for name in modules:
        module = plugin_module(name)
        found.extend(tools_in(module, origin=name))
    return tuple(dict.fromkeys(found))


def tools_in(loaded: object, *, origin: str) -> list[AnyTool]:
    """The tools in a loaded plugin: a tool itself, or those of a module."""
    if isinstance(loaded, Tool):
        return [loaded]
    if isinstance(loaded, ModuleType):
        return [value for _, value in sorted(vars(loaded).items()) if isinstance(value, Tool)]
    if callable(loaded):
        return tools_in(loaded(), origin=origin)
    if isinstance(loaded, Iterable) and not isinstance(loaded, str | bytes):
        return [found for item in loaded for found in tools_in(item, origin=origin)]
    raise InvalidInput(
        f"The plugin {origin} holds {type(loaded).__name__}, which is not a tool.",
        cure="Point it at a function decorated with @tool, or at a module of such functions.",
    )
