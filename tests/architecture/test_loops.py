"""Every loop class can be steered and looked at in every way, and is named as outsiders know it."""

import importlib
import inspect

import pytest
from temporalio import workflow
from temporalio.workflow import _Definition  # the only place that lists a class's handlers

from perdure.domain.foundation.names import (
    BETWEEN_RUNS,
    COLLECTION_WORKFLOW,
    EXPERIMENT_WORKFLOW,
    MINING_WORKFLOW,
    QUERIES,
    WORKFLOW_TYPES,
)
from perdure.domain.run import messages
from perdure.domain.run.message_forms import SHORT_ANSWERS
from perdure.domain.run.messages import VERBS
from tests.architecture.sources import modules

# A closed run has no handlers: the gateway starts it anew.
OF_THE_GATEWAY = {"retry"}
# These run loops, look at them or clean up after them; they are none.
NO_LOOPS = {MINING_WORKFLOW, EXPERIMENT_WORKFLOW, COLLECTION_WORKFLOW}


def loops() -> dict[str, _Definition]:
    found: dict[str, _Definition] = {}
    for module in modules("workflows"):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            definition = _Definition.from_class(cls)
            name = definition.name if definition is not None else None
            if definition is not None and name is not None and name not in NO_LOOPS:
                found[cls.__name__] = definition
    return found


LOOPS = loops()


@workflow.defn
class Careless:
    """What a loop must not be: its update takes anything."""

    @workflow.run
    async def run(self) -> None: ...

    @workflow.update(name="pause")
    def do_pause(self, message: messages.Pause) -> messages.Receipt:
        raise NotImplementedError


@pytest.fixture(params=LOOPS.values(), ids=list(LOOPS))
def loop(request: pytest.FixtureRequest) -> _Definition:
    return request.param


def test_loops_are_known_by_their_names() -> None:
    assert "AgentLoop" in LOOPS
    names = {name: definition.name for name, definition in LOOPS.items()}
    assert set(names.values()) == set(WORKFLOW_TYPES.values())
    # What starts a loop from its task has the loop's name, on a queue of its own.
    starts = {name for name in names if names[name] != name}
    assert starts == {"AgentTask", "RefineTask", "RoleTask", "DelegationTask"}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in OF_THE_GATEWAY])
def test_each_verb_is_a_signal_and_a_validated_update(loop: _Definition, verb: str) -> None:
    signal, update = loop.signals.get(verb), loop.updates.get(verb)
    assert signal is not None, f"no signal {verb}"
    assert update is not None, f"no update {verb}"
    # An update that is overridden without its validator loses it silently.
    assert update.validator is not None, f"update {verb} has no validator"
    # A signature that a signal does not fit fails its task, for ever: they take what comes.
    assert signal.arg_types is update.arg_types is None
    assert set(inspect.signature(signal.fn).parameters) == {"self", "given"}
    assert update.ret_type is messages.Receipt
    assert signal.description and update.description


def test_handlers_are_synchronous_but_the_update_that_is_answered_when_stored(
    loop: _Definition,
) -> None:
    others = [*loop.signals.values(), *loop.queries.values()]
    assert [h.name for h in others if inspect.iscoroutinefunction(h.fn)] == []
    waiting = [h.name for h in loop.updates.values() if inspect.iscoroutinefunction(h.fn)]
    assert waiting == ["amend"]


def test_each_query_is_there_with_its_description(loop: _Definition) -> None:
    assert set(QUERIES) <= set(loop.queries)
    assert [name for name in QUERIES if not loop.queries[name].description] == []


def test_there_is_no_verb_that_the_names_do_not_list(loop: _Definition) -> None:
    assert set(loop.updates) <= set(VERBS)
    assert set(loop.signals) <= {
        *VERBS,
        *SHORT_ANSWERS,
        *BETWEEN_RUNS,
        None,
    }  # None answers names that are no verb
    assert set(loop.queries) <= set(QUERIES)


def test_a_lost_validator_would_be_seen() -> None:
    update = _Definition.must_from_class(Careless).updates["pause"]
    assert update is not None and update.validator is None
