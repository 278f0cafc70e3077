"""What the decorator of every step relies on."""

import asyncio
import importlib
import inspect
import pkgutil
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import get_type_hints

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

import perdure.activities
from perdure.activities.support.error_mapping import model_failure, translated
from perdure.activities.support.heartbeat import to_the_end
from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.retry_policies import STORE_PATIENCE
from perdure.domain.llm.errors import ModelFacts
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run.activity_messages import ModelFailure
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


async def test_a_failure_of_a_provider_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    facts = ModelFacts(kind="authentication", message="The key\nwas refused.", status=401)
    failure = ModelFailure(facts=facts, account=AttemptTotals())

    async def step() -> ApplicationError:
        return model_failure(failure, pause_s=None, fits=True)

    error = await ActivityEnvironment().run(step)
    assert error.category is ApplicationErrorCategory.BENIGN, "the SDK would write a traceback"
    (record,) = caplog.records
    assert record.getMessage().startswith("model_authentication: The key was refused.")
    assert record.exc_info is None


async def test_a_failure_that_quotes_half_a_character_arrives_with_its_facts() -> None:
    """Without them the server would make attempts of a refused call for ever."""
    facts = ModelFacts(
        kind="bad_request", message="Refused: a \ud83d", provider_code="\ud83d", status=400
    )
    failure = ModelFailure(facts=facts, account=AttemptTotals())

    async def step() -> ApplicationError:
        return model_failure(failure, pause_s=None, fits=True)

    error = await ActivityEnvironment().run(step)
    sent = Failure()
    await data_converter(None).encode_failure(error, sent)
    read = await data_converter(None).decode_failure(sent)
    assert isinstance(read, ApplicationError)
    assert (read.type, read.non_retryable) == ("model_bad_request", True)
    assert read.details[0]["facts"]["message"] == "Refused: a ?"


@pytest.mark.parametrize(
    ("details", "kind", "words"),
    [
        ({"not_found": True}, "given_up", "its run was reset, ended or deleted"),
        ({"worker_shutdown": True}, "worker_shutdown", "the worker was shut down"),
    ],
    ids=["gone", "shutdown"],
)
async def test_a_step_that_is_taken_away_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, details: dict[str, bool], kind: str, words: str
) -> None:
    """After a reset of many runs, a traceback for each call would bury everything else."""
    place = ActivityEnvironment()
    begun = asyncio.Event()

    @translated
    async def step() -> None:
        begun.set()
        await asyncio.sleep(60)

    running = asyncio.create_task(place.run(step))
    await begun.wait()
    place.cancel(ActivityCancellationDetails(**details))
    with pytest.raises(ApplicationError, match=words) as ended:
        await running
    assert (ended.value.type, ended.value.category) == (kind, ApplicationErrorCategory.BENIGN)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [kind]


async def test_a_cancellation_by_the_workflow_goes_on_as_it_is() -> None:
    place, begun = ActivityEnvironment(), asyncio.Event()

    @translated
    async def step() -> None:
        begun.set()
        await asyncio.sleep(60)

    running = asyncio.create_task(place.run(step))
    await begun.wait()
    place.cancel(ActivityCancellationDetails(cancel_requested=True))
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_step_without_its_store_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bookkeeping is tried every half minute, for each run, as long as an outage lasts."""

    @translated
    async def step() -> None:
        raise StoreAway("The database is away.", cure="Start it.")

    with pytest.raises(ApplicationError) as ended:
        await ActivityEnvironment().run(step)
    told = (ended.value.type, ended.value.non_retryable, ended.value.category)
    assert told == ("store_away", False, ApplicationErrorCategory.BENIGN)
    (record,) = caplog.records
    assert record.getMessage().startswith("store_away: The database is away. Start it.")
    assert record.exc_info is None


async def test_what_was_done_to_the_end_is_told_though_the_limit_has_passed() -> None:
    """As of a tool that ran, while its files are stored: a loss would have it run once more."""
    place, limit = ActivityEnvironment(), STORE_PATIENCE + timedelta(seconds=0.1)
    place.info = replace(place.info, start_to_close_timeout=limit)

    @translated
    async def step(last: float, *, whole: bool) -> str:
        await (to_the_end(asyncio.sleep(last)) if whole else asyncio.sleep(last))
        return "what the tool brought"

    assert await place.run(partial(step, 0.4, whole=True)) == "what the tool brought"
    with pytest.raises(ApplicationError, match=r"worked for more than 0\.1 s"):
        await place.run(partial(step, 60, whole=False))
