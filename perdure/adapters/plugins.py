"""Loads checks, hooks and tools of other packages: entry points, and modules of the settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TypeVar

from perdure.adapters.plugin_modules import (
    CHECK_GROUP,
    HOOK_GROUP,
    TOOL_GROUP,
    broken_plugin,
    installed_plugins,
    plugin_module,
)
from perdure.adapters.tools.host import AnyTool
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.definitions import ActivityTarget
from perdure.event_log import get_logger
from perdure.extending.check_decorator import CustomCheck, custom_check, named_check
from perdure.extending.foreign_code import contained
from perdure.extending.hook_decorators import Hook
from perdure.extending.tool_decorator import Tool

_log = get_logger(__name__)

Named = TypeVar("Named", CustomCheck, Hook)


def plugin_check_names() -> frozenset[str]:
    """The names that installed packages give their checks; loads nothing."""
    return frozenset(installed_plugins(group=CHECK_GROUP).names)


def plugin_checks(modules: Sequence[str] = ()) -> dict[str, CustomCheck]:
    """Load the checks of installed packages and of `modules`, by name.

    An entry point names a function, decorated or not, and the entry point's name becomes the
    check's. In a module all public functions decorated with `@check` are checks.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, a name is taken, or an
            activity names no queue.
    """
    found: dict[str, CustomCheck] = {}
    for name, origin, loaded in _pointed(CHECK_GROUP):
        if isinstance(loaded, CustomCheck):
            renamed = named_check(loaded.function, name=name)
            _add(found, replace(renamed, activity=loaded.activity), kind="check")
        elif callable(loaded):
            _add(found, custom_check(loaded, name=name), kind="check")
        else:
            raise InvalidInput(
                f"The plugin {origin} holds {type(loaded).__name__}, which is not a check.",
                cure="Point it at a function of the output.",
            )
    for name in modules:
        for _, value in sorted(vars(plugin_module(name)).items()):
            if isinstance(value, CustomCheck):
                _add(found, value, kind="check")
    for check in found.values():
        if check.activity is not None:
            _require_queue(check.activity.target, what=f"the check {check.name}")
    return found


def with_own_checks(
    of_plugins: Mapping[str, CustomCheck], own: Mapping[str, CustomCheck]
) -> dict[str, CustomCheck]:
    """The checks of plugins and those of the program itself, by name.

    Raises:
        InvalidInput: one of each has the same name, and another function.
    """
    for name, check in own.items():
        known = of_plugins.get(name)
        if known is not None and known.function is not check.function:
            raise InvalidInput(
                f"A plugin brings a check named {name}, and so does this program.",
                cure="Rename or remove one of them.",
            )
    return {**of_plugins, **own}


def plugin_hook_names() -> frozenset[str]:
    """The names that installed packages give their hooks; loads nothing."""
    return frozenset(installed_plugins(group=HOOK_GROUP).names)


def plugin_hooks(modules: Sequence[str] = ()) -> dict[str, Hook]:
    """Load the hooks of installed packages and of `modules`, by name.

    An entry point names a decorated function, and the entry point's name becomes the hook's. In a
    module all public functions decorated with `@adapt`, `@on_iteration` or `@on_end` are hooks.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, or a name is taken.
    """
    found: dict[str, Hook] = {}
    for name, origin, loaded in _pointed(HOOK_GROUP):
        if not isinstance(loaded, Hook):
            raise InvalidInput(
                f"The plugin {origin} holds {type(loaded).__name__}, which is not a hook.",
                cure="Point it at a function decorated with @adapt, @on_iteration or @on_end.",
            )
        _add(found, replace(loaded, name=name), kind="hook")
    for name in modules:
        for _, value in sorted(vars(plugin_module(name)).items()):
            if isinstance(value, Hook):
                _add(found, value, kind="hook")
    return found


def has_plugins(modules: Sequence[str] = ()) -> bool:
    """Whether any tools besides the built-in ones are installed or named; loads nothing."""
    return bool(modules) or bool(installed_plugins(group=TOOL_GROUP))


def warn_of_idle(modules: Sequence[str]) -> None:
    """Log each module without a tool, a check or a hook: somebody forgot a decorator, or its name.

    Raises:
        InvalidInput: one cannot be imported.
    """
    for name in modules:
        values = vars(plugin_module(name)).values()
        if not any(isinstance(value, Tool | CustomCheck | Hook) for value in values):
            _log.warning(
                "plugin_brings_nothing",
                plugin=name,
                cure="Decorate its public functions with @tool, @check, @adapt, @on_iteration or "
                "@on_end, or take it out of the setting `plugins`.",
            )


def plugin_tools(modules: Sequence[str] = ()) -> tuple[AnyTool, ...]:
    """Load the tools of installed packages and of `modules`, in a stable order.

    An entry point names a tool, a sequence of tools, a function that returns them, or a module
    whose public names are searched.

    Raises:
        InvalidInput: a plugin cannot be imported or holds something else, or an activity names no
            queue.
    """
    found: list[AnyTool] = []
    for _, origin, loaded in _pointed(TOOL_GROUP):
        found.extend(tools_in(loaded, origin=origin))
    for name in modules:
        found.extend(tools_in(plugin_module(name), origin=name))
    for tool in found:
        if tool.fact.activity is not None:
            _require_queue(tool.fact.activity, what=f"the tool {tool.fact.name}")
    return tuple(dict.fromkeys(found))


def tools_in(loaded: object, *, origin: str) -> list[AnyTool]:
    """The tools in a loaded plugin: a tool itself, or those of a module."""
    if isinstance(loaded, Tool):
        return [loaded]
    if isinstance(loaded, ModuleType):
        return [value for _, value in sorted(vars(loaded).items()) if isinstance(value, Tool)]
    if callable(loaded):
        try:
            with contained():
                given: object = loaded()
        except Exception as error:
            raise broken_plugin(origin, error) from error
        return tools_in(given, origin=origin)
    if isinstance(loaded, Iterable) and not isinstance(loaded, str | bytes):
        return [found for item in loaded for found in tools_in(item, origin=origin)]
    raise InvalidInput(
        f"The plugin {origin} holds {type(loaded).__name__}, which is not a tool.",
        cure="Point it at a function decorated with @tool, or at a module of such functions.",
    )


def _pointed(group: str) -> Iterator[tuple[str, str, object]]:
    """Name, origin and loaded object of each entry point of a group, in order of their names."""
    for point in sorted(installed_plugins(group=group), key=lambda point: point.name):
        origin = f"{point.name} = {point.value}"
        try:
            with contained():
                loaded: object = point.load()
        except Exception as error:
            raise broken_plugin(origin, error) from error
        yield point.name, origin, loaded


def _require_queue(target: ActivityTarget, *, what: str) -> None:
    # Only a worker that `PerdurePlugin` serves is known to have it; calls would wait for ever.
    if not target.queue:
        raise InvalidInput(
            f"A plugin brings the activity {target.type!r}, which is {what}, without a queue.",
            cure="Name the queue of the worker that has it, with task_queue=…, or give it to "
            "PerdurePlugin instead.",
        )


def _add(found: dict[str, Named], new: Named, *, kind: str) -> None:
    known = found.setdefault(new.name, new)
    # The same function comes again where a module imports it, or has an entry point as well.
    if known.function is not new.function:
        raise InvalidInput(
            f"Two plugins bring a {kind} named {new.name}.", cure="Rename or remove one of them."
        )
