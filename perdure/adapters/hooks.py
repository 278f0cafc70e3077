"""The hooks that a worker serves: built-in ones, those of plugins, and those passed in."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perdure.adapters.logging.redacting import without_secrets
from perdure.domain.foundation.errors import LOAD_PLUGIN, InvalidInput
from perdure.domain.foundation.problems import nearest_name
from perdure.domain.run.hooks import (
    WORDS,
    Adapted,
    EndFacts,
    HookFailed,
    IterationFacts,
    WantedHook,
    adaptation_problem,
)
from perdure.extending.foreign_code import as_own_task, named
from perdure.extending.hook_decorators import Hook, adapt
from perdure.extending.own_thread import in_own_thread

DECIMALS = 10
_ADAPTED = TypeAdapter(Adapted)


@adapt(name="relevance_minimum")
def relevance_minimum(
    facts: IterationFacts,
    enough: str = "five jobs",
    value: str = "min_relevance",
    first: float = 0.8,
    later: float = 0.6,
    lower: float = 0.1,
    higher: float = 0.05,
) -> Adapted:
    """The minimum of the next list: lower after a list that was too short, else higher.

    Args:
        facts: of the iteration.
        enough: the dimension that says whether the list was long enough.
        value: the name of the minimum.
        first: what it is counted from after the first iteration.
        later: what it is counted from after later ones.
        lower: how much lower after a short list.
        higher: how much higher after a long one.
    """
    if enough not in facts.scores:
        raise InvalidInput(
            f"relevance_minimum needs a score of {enough!r}; there are: "
            f"{', '.join(facts.scores) or 'none'}.",
            cure="Name a dimension of the rubric in its parameter `enough`.",
        )
    base = first if facts.iteration == 1 else later
    step = higher if facts.scores[enough] >= 1 else -lower
    return {**facts.adaptation, value: round(base + step, DECIMALS)}


BUILT_IN: Mapping[str, Hook] = {relevance_minimum.name: relevance_minimum}


def with_built_in(hooks: Iterable[Hook]) -> dict[str, Hook]:
    """All hooks by name, with the built-in ones.

    Raises:
        InvalidInput: two hooks have the same name.
    """
    found = dict(BUILT_IN)
    for hook in hooks:
        # The same object may come twice, from its own module and from one that imports it.
        if found.get(hook.name, hook) is not hook:
            raise InvalidInput(
                f"Two hooks are named {hook.name}.", cure="Rename or remove one of them."
            )
        found[hook.name] = hook
    return found


class ServedHooks:
    """The port `HookRunner`; synchronous functions run in a thread."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = hooks

    @property
    def listed(self) -> dict[str, str]:
        """The kind of each hook, by name."""
        return {name: self._hooks[name].kind for name in sorted(self._hooks)}

    def problems(self, wanted: Mapping[str, WantedHook]) -> dict[str, str]:
        found = {place: self._problem(hook) for place, hook in wanted.items()}
        return {place: why for place, why in found.items() if why}

    async def run(self, hook: WantedHook, facts: IterationFacts | EndFacts) -> Adapted:
        """Call a hook.

        Raises:
            HookFailed: it raised an error.
            InvalidInput: it is not served, its parameters do not fit, or an `adapt` hook returned
                something that is no adaptation.
        """
        if why := self._problem(hook):
            raise InvalidInput(why)
        found = self._hooks[hook.name]
        parameters = found.read(hook.parameters)
        try:
            returned = await _called(found.function, facts, parameters)
        # Of the hook itself, which would say the same again; all else is tried again.
        except InvalidInput:
            raise
        except Exception as error:
            raise HookFailed(f"{without_secrets(named(error))}{_place(error)}"[:WORDS]) from error
        return _adapted(found, returned) if hook.kind == "adapt" else {}

    def _problem(self, hook: WantedHook) -> str:
        found = self._hooks.get(hook.name)
        if found is None:
            near = nearest_name(hook.name, tuple(self._hooks))
            meant = f" Is {near} meant?" if near else ""
            return (
                f"no hook is named {hook.name} on this worker; it serves {self._names()}.{meant} "
                f"{LOAD_PLUGIN}"
            )
        if found.kind != hook.kind:
            return f"{hook.name} is a hook of kind {found.kind}, not {hook.kind}"
        try:
            found.read(hook.parameters)
        except InvalidInput as error:
            return error.message
        return ""

    def _names(self) -> str:
        return ", ".join(sorted(self._hooks)) or "none"


async def _called(
    function: Callable[..., object],
    facts: IterationFacts | EndFacts,
    parameters: Mapping[str, object],
) -> object:
    if inspect.iscoroutinefunction(function):
        return await as_own_task(lambda: function(facts, **parameters))

    # Not in the event loop, where a slow function would block heartbeats and other steps.
    value = await in_own_thread(lambda: function(facts, **parameters))
    # A plain wrapper of an asynchronous function only makes the coroutine, which runs nothing yet.
    return await as_own_task(lambda: value) if inspect.isawaitable(value) else value


def _adapted(hook: Hook, returned: object) -> Adapted:
    why = adaptation_problem(returned)
    if why is None:
        try:
            return _ADAPTED.validate_python(dict(_mapping(returned)))
        except ValidationError as error:
            why = f"values that JSON can write ({error.error_count()} are not)"
    raise InvalidInput(
        f"The hook {hook.name} returned no adaptation; allowed: {why}.",
        cure="Return a small object of named values.",
    )


def _mapping(value: object) -> Mapping[str, object]:
    """The value as a mapping, which `adaptation_problem` has checked that it is."""
    if not isinstance(value, Mapping):
        raise TypeError(type(value).__name__)
    return {str(name): item for name, item in value.items()}


def _place(error: BaseException) -> str:
    """The file and line where the user's function failed."""
    frames = [
        one
        for one in traceback.extract_tb(error.__traceback__)
        if one.filename != __file__
        and Path(one.filename).name not in {"own_loop.py", "own_thread.py"}
    ]
    last = frames[-1] if frames else None
    return "" if last is None else f" ({Path(last.filename).name}, line {last.lineno})"
