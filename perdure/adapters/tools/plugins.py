"""Tools of other packages: entry points `perdure.tools`, and modules named in the settings."""

from collections.abc import Iterable, Sequence
from types import ModuleType

from perdure.adapters.plugin_modules import broken_plugin, installed_plugins, plugin_module
from perdure.adapters.tools.host import AnyTool
from perdure.domain.foundation.errors import InvalidInput
from perdure.tool_decorator import Tool

GROUP = "perdure.tools"


def has_plugins(modules: Sequence[str] = ()) -> bool:
    """Whether anything besides the built-in tools is installed or named; nothing is loaded."""
    return bool(modules) or bool(installed_plugins(group=GROUP))


def plugin_tools(modules: Sequence[str] = ()) -> tuple[AnyTool, ...]:
    """Load the tools of installed packages and of `modules`, in a stable order.

    An entry point names a tool, a sequence of tools, a function that returns them, or a module
    whose public names are searched.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else.
    """
    found: list[AnyTool] = []
    for point in sorted(installed_plugins(group=GROUP), key=lambda point: point.name):
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
    """The tools that a loaded plugin stands for."""
    if isinstance(loaded, Tool):
        return [loaded]
    if isinstance(loaded, ModuleType):
        return [value for _, value in sorted(vars(loaded).items()) if isinstance(value, Tool)]
    if callable(loaded):
        return tools_in(loaded(), origin=origin)
    if isinstance(loaded, Iterable) and not isinstance(loaded, str | bytes):
        return [found for item in loaded for found in tools_in(item, origin=origin)]
    raise InvalidInput(
        f"The plugin {origin} holds {type(loaded).__name__}, which is no tool.",
        cure="Point it at a function decorated with @tool, or at a module of such functions.",
    )
