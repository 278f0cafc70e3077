"""The hooks that a worker serves: how they are called, and what they may return."""

import asyncio
import functools
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from perdure import EndFacts, IterationFacts, adapt, on_end, on_iteration
from perdure.adapters import plugins
from perdure.adapters.hooks import ServedHooks, relevance_minimum, with_built_in
from perdure.adapters.plugin_modules import HOOK_GROUP
from perdure.adapters.plugins_aside import hooks_aside
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.hooks import Adapted, HookFailed, HookKind, WantedHook
from perdure.extending.hook_decorators import Hook
from perdure.extending.own_loop import OwnLoops

FACTS = IterationFacts(
    run="r", kind="refine", iteration=1, idempotency_key="k", adaptation={"least": 4}
)
END = EndFacts(run="r", kind="agent", outcome="accepted", reason="completed", idempotency_key="k")


@adapt(name="acme.fewer")
def fewer(facts: IterationFacts, by: int = 1) -> Adapted:
    return {"least": int(str(facts.adaptation["least"])) - by}


@adapt(name="acme.later")
async def later(facts: IterationFacts) -> Adapted:
    await asyncio.sleep(0)
    return {"iteration": facts.iteration}


@on_iteration(name="acme.gone")
def gone(facts: IterationFacts) -> None:
    raise KeyError("gone")


@on_end(name="acme.told")
def told(facts: EndFacts) -> str:
    return f"ignored: {facts.outcome}"


@adapt(name="acme.nothing")
def nothing(facts: IterationFacts) -> None:
    """Return what is no adaptation."""


HOOKS = ServedHooks(with_built_in([fewer, later, gone, told, nothing]))


def wanted(hook: Hook, **parameters: object) -> WantedHook:
    return WantedHook.model_validate(
        {"kind": hook.kind, "name": hook.name, "parameters": parameters}
    )


@pytest.mark.parametrize(
    ("hook", "adaptation"),
    [
        pytest.param(wanted(fewer), {"least": 3}, id="a function"),
        pytest.param(wanted(fewer, by=3), {"least": 1}, id="with a parameter"),
        pytest.param(wanted(fewer, by="2"), {"least": 2}, id="a parameter as a text"),
        pytest.param(wanted(later), {"iteration": 1}, id="asynchronous"),
    ],
)
async def test_what_adapts(hook: WantedHook, adaptation: Adapted) -> None:
    assert await HOOKS.run(hook, FACTS) == adaptation


async def test_what_is_told_returns_nothing() -> None:
    assert await HOOKS.run(wanted(told), END) == {}


@pytest.mark.parametrize(
    ("hook", "error", "said"),
    [
        pytest.param(wanted(gone), HookFailed, r"KeyError: 'gone' \(test_hooks.py, line", id="it"),
        pytest.param(wanted(nothing), InvalidInput, "acme.nothing returned no adaptation", id="no"),
        pytest.param(wanted(fewer, by="x"), InvalidInput, "by: found", id="a wrong parameter"),
        pytest.param(wanted(fewer, of=1), InvalidInput, "of: found", id="an unknown parameter"),
    ],
)
async def test_what_fails(hook: WantedHook, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        await HOOKS.run(hook, FACTS)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("adapt", "acme.fewer", None),
        ("adapt", "acme.fewest", "no hook is named acme.fewest on this worker"),
        ("adapt", "acme.fewest", "load it after `perdure down`"),
        ("on_end", "acme.fewer", "is a hook of kind adapt, not on_end"),
    ],
)
def test_what_a_worker_refuses(kind: HookKind, name: str, said: str | None) -> None:
    found = HOOKS.problems({"hooks.adapt": WantedHook(kind=kind, name=name)})
    assert set(found) == ({"hooks.adapt"} if said else set())
    assert (said or "") in found.get("hooks.adapt", "")


@pytest.mark.parametrize(
    ("iteration", "score", "minimum"),
    [
        pytest.param(1, 0.0, 0.7, id="first, too few"),
        pytest.param(1, 1.0, 0.85, id="first, enough"),
        pytest.param(2, 0.0, 0.5, id="later, too few"),
        pytest.param(3, 1.0, 0.65, id="later, enough"),
    ],
)
async def test_the_minimum_of_the_next_list(iteration: int, score: float, minimum: float) -> None:
    facts = FACTS.model_copy(
        update={
            "iteration": iteration,
            "scores": {"five jobs": score},
            "adaptation": {"min_relevance": 0.8, "place": "Utrecht"},
        }
    )
    adapted = await HOOKS.run(wanted(relevance_minimum), facts)
    assert adapted == {"min_relevance": minimum, "place": "Utrecht"}


async def test_the_minimum_needs_its_dimension() -> None:
    with pytest.raises(InvalidInput, match="needs a score of 'five jobs'; there are: length"):
        await HOOKS.run(
            wanted(relevance_minimum), FACTS.model_copy(update={"scores": {"length": 1.0}})
        )


def _unannotated(facts, by):  # type: ignore[no-untyped-def]
    return {}


def _drips(facts: IterationFacts) -> Iterator[int]:
    yield facts.iteration


async def _drips_later(facts: IterationFacts) -> AsyncIterator[int]:
    yield facts.iteration


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        pytest.param(_drips, "acme.a", "acme.a is a generator", id="a generator"),
        pytest.param(_drips_later, "acme.a", "acme.a is a generator", id="asynchronous generator"),
        pytest.param(lambda: None, "acme.a", "takes no facts", id="no facts"),
        pytest.param(_unannotated, "acme.a", "'by' of hook acme.a has no type", id="no type"),
        pytest.param(lambda facts: {}, "Acme A", "malformed", id="a malformed name"),
    ],
)
def test_what_is_no_hook(function: Callable[..., object], name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        adapt(name=name)(function)


@pytest.mark.parametrize(
    ("value", "modules", "found"),
    [
        pytest.param("acme_hooks:widen", (), {"acme.point": "adapt"}, id="an entry point's name"),
        pytest.param(None, ("acme_hooks",), {"acme.widen": "adapt"}, id="a module's own name"),
        pytest.param("acme_hooks:LEAST", (), "holds int, which is not a hook", id="no hook"),
        pytest.param("acme_hooks:gone", (), "cannot be loaded", id="not there"),
    ],
)
def test_what_plugins_bring(
    monkeypatch: pytest.MonkeyPatch, value: str | None, modules: tuple[str, ...], found: object
) -> None:
    module = ModuleType("acme_hooks")
    vars(module).update(widen=adapt(name="acme.widen")(lambda facts: {}), LEAST=4)
    monkeypatch.setitem(sys.modules, "acme_hooks", module)
    points = [] if value is None else [EntryPoint("acme.point", value, HOOK_GROUP)]
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: points)
    if isinstance(found, str):
        with pytest.raises(InvalidInput, match=found):
            plugins.plugin_hooks(modules)
    else:
        hooks = plugins.plugin_hooks(modules)
        assert {name: hook.kind for name, hook in hooks.items()} == found


def test_a_name_is_taken_once() -> None:
    other = adapt(name="relevance_minimum")(lambda facts: {})
    with pytest.raises(InvalidInput, match="Two hooks are named relevance_minimum"):
        with_built_in([other])


async def test_asynchronous_hooks_of_plugins_run_outside_the_event_loop_of_the_worker() -> None:
    threads = list[int]()

    @adapt(name="acme.where")
    async def where(facts: IterationFacts) -> Adapted:
        threads.append(threading.get_ident())
        await asyncio.sleep(0)
        return {"least": 1}

    @on_iteration(name="acme.split")
    async def split(facts: IterationFacts) -> None:
        raise ZeroDivisionError("half")

    hooks = with_built_in([where, split])
    of_plugin = ServedHooks(hooks_aside(hooks, OwnLoops(), own=[]))
    of_program = ServedHooks(hooks_aside(hooks, OwnLoops(), own=[where, split]))
    for served in (of_plugin, of_program):
        assert await served.run(wanted(where), FACTS) == {"least": 1}
        with pytest.raises(HookFailed, match=r"ZeroDivisionError: half \(test_hooks.py, line"):
            await served.run(wanted(split), FACTS)
    assert [thread == threading.get_ident() for thread in threads] == [False, True]


async def test_an_asynchronous_hook_behind_a_plain_wrapper_runs() -> None:
    ran = list[str]()

    async def tells(facts: EndFacts) -> None:
        await asyncio.sleep(0)
        ran.append(facts.outcome)
        if len(ran) == 2:
            raise ZeroDivisionError("half")

    @on_end(name="acme.tells")
    @functools.wraps(tells)
    def wrapped(facts: EndFacts) -> Awaitable[None]:
        return tells(facts)

    hooks = with_built_in([wrapped])
    of_plugin = ServedHooks(hooks_aside(hooks, OwnLoops(), own=[]))
    assert await ServedHooks(hooks).run(wanted(wrapped), END) == {}
    with pytest.raises(HookFailed, match=r"ZeroDivisionError: half \(test_hooks.py, line"):
        await of_plugin.run(wanted(wrapped), END)
    assert await of_plugin.run(wanted(wrapped), END) == {}
    assert ran == ["accepted"] * 3


async def test_an_asynchronous_hook_that_blocks_is_left_behind_when_its_step_ends() -> None:
    begun, free = threading.Event(), threading.Event()

    @on_iteration(name="acme.blocks")
    async def blocks(facts: IterationFacts) -> None:
        begun.set()
        free.wait()

    served = ServedHooks(hooks_aside({"acme.blocks": blocks}, OwnLoops(), own=[]))
    task = asyncio.create_task(served.run(wanted(blocks), FACTS))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    free.set()
