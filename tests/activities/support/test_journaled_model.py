"""A metered call and its journal: what is asked first, what is booked, what is told."""

from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.support import journaled_model
from perdure.activities.support.heartbeat import within
from perdure.activities.support.journaled_model import Answered, Backoff, JournaledModel, NotSent
from perdure.activities.support.live_text_writer import LiveTextWriter
from perdure.activities.support.prepared_attempt import call_context, within_window
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.budget.allowances import Allowance
from perdure.domain.llm.errors import ModelError, ModelFacts
from perdure.domain.llm.requests import CallContext, ModelProfile, ModelReply, ModelRequest
from perdure.domain.llm.transcript import Message, TextBlock, user_message
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import ModelClient
from perdure.domain.run.activity_messages import Frame, ModelCallRequest
from perdure.domain.tools.definitions import ToolGrant

MODEL = "counted"


class Counted:
    """A provider whose own count of the prompt is what a test says."""

    def __init__(self) -> None:
        self.tokens = 10
        self.counts = self.calls = 0
        self.broken = False
        self.usage, self.usage_of_failure = Usage(input_tokens=10, output_tokens=5), Usage()

    def resolve(self, model: str) -> ModelClient:
        return self

    async def card(self, model: str) -> ModelProfile:
        return ModelProfile(name=model, price=None)

    async def count(self, request: ModelRequest) -> int | None:
        self.counts += 1
        return self.tokens

    async def call(
        self, request: ModelRequest, *, on_text: object, on_answer: object = None
    ) -> ModelReply:
        self.calls += 1
        if self.broken:
            raise ModelError(
                ModelFacts(kind="connection", message="broke off", usage=self.usage_of_failure)
            )
        return ModelReply(
            message=Message(role="assistant", blocks=(TextBlock(type="text", text="said"),)),
            stop_reason="end_turn",
            usage=self.usage,
            model=MODEL,
        )


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def attempted(
    stores: Stores, provider: Counted, *, attempt: int, active: float | None = None
) -> Answered | NotSent:
    """One attempt of one logical call, as an activity makes it."""
    metered = JournaledModel(
        models=provider,
        journal=stores.journal,
        blobs=stores.blobs,
        live=LiveTextWriter(stores.live(), on_failure=pytest.fail),
        backoff=Backoff(),
    )
    allowance = Allowance(max_tokens=50, tokens=60, active_time_s=active)
    step = ModelCallRequest(frame="f", iteration=1, model=MODEL, allowance=allowance)
    frame = Frame(
        run="run",
        root="run",
        kind="agent",
        goal="g",
        system="",
        tools=(),
        grant=ToolGrant(root="", allowed=()),
        cards={MODEL: ModelProfile(name=MODEL, price=None)},
        chains={},
    )

    async def body() -> Answered | NotSent:
        request = ModelRequest(
            model=MODEL,
            system="",
            messages=(user_message("hello"),),
            max_tokens=50,
            context=call_context(step, run="run"),
        )
        return await metered.call(step, request, frame=frame, estimate=10)

    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=attempt)
    return await environment.run(body)


@pytest.mark.parametrize("told", [0, -7, True, 10**13, None])
async def test_what_is_no_count_does_not_replace_the_estimate(
    stores: Stores, told: int | None
) -> None:
    provider = Counted()
    provider.tokens = told  # type: ignore[assignment]
    provider.usage = Usage(input_tokens=-1)  # no usage either, so that the prompt is booked
    found = await attempted(stores, provider, attempt=1)
    assert isinstance(found, Answered)
    assert (found.prompt_tokens, found.reply.confirmed) == (10, False)


async def test_a_retry_asks_the_journal_before_it_counts_or_judges_the_fit(stores: Stores) -> None:
    """The count of the prompt moved meanwhile: the reply is paid for, and is given all the same."""
    provider = Counted()
    assert isinstance(await attempted(stores, provider, attempt=1), Answered)
    provider.tokens, provider.counts = 10_000, 0
    again = await attempted(stores, provider, attempt=2)
    assert isinstance(again, Answered)
    assert again.replayed
    assert again.reply.message.text == "said"
    assert (provider.calls, provider.counts) == (1, 0)


@pytest.mark.parametrize("broken", [False, True], ids=["answered", "failed"])
@pytest.mark.parametrize("tokens", [10**20, 2**63 - 1, 10**12 + 1, -1])
async def test_a_usage_that_cannot_be_true_is_none_told(
    stores: Stores, tokens: int, broken: bool
) -> None:
    """Booked as it is, sums over the journal would fail for good."""
    provider = Counted()
    provider.usage = provider.usage_of_failure = Usage(input_tokens=5, output_tokens=tokens)
    provider.broken = broken
    if broken:
        with pytest.raises(ApplicationError):
            await attempted(stores, provider, attempt=1)
    else:
        answered = await attempted(stores, provider, attempt=1)
        assert isinstance(answered, Answered)
        assert answered.reply.usage.is_plausible
        assert not answered.reply.confirmed
    [row] = await stores.journal.rows("run")
    assert row.at_estimate
    assert row.usage.prompt_tokens == provider.tokens
    assert await stores.figures().count_calls(lost_before=row.started_at)


@pytest.mark.parametrize(("active", "left"), [(120, 10), (110, None), (100, None), (None, None)])
async def test_all_attempts_share_the_active_time(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, active: float | None, left: float | None
) -> None:
    bounds: list[float | None] = []

    async def bounded(work: Awaitable[ModelReply], *, seconds: float | None) -> object:
        bounds.append(seconds)
        return await within(ended(work), seconds=None)

    async def ended(work: Awaitable[ModelReply]) -> ModelReply:
        return await work

    monkeypatch.setattr(journaled_model, "within", bounded)
    monkeypatch.setattr(journaled_model, "Stopwatch", lambda: SimpleNamespace(seconds=110.0))
    provider = Counted()
    provider.broken = True
    with pytest.raises(ApplicationError):
        await attempted(stores, provider, attempt=1, active=active)
    provider.broken = False
    second = await attempted(stores, provider, attempt=2, active=active)
    if active is None or left is not None:
        assert isinstance(second, Answered)
        assert bounds[1] == left
        return
    assert isinstance(second, NotSent)
    assert (second.status, second.account.seconds, provider.calls) == ("interrupted", 110, 1)


@pytest.mark.parametrize(
    ("prompt", "longest"),
    [(100, 500), (700, 300), (999, 1), (1_000, 500), (2_000, 500)],
    ids=["there is room", "less", "hardly any", "none: the provider says so", "too long"],
)
def test_prompt_and_reply_fit_the_window_together(prompt: int, longest: int) -> None:
    request = ModelRequest(
        model="m",
        system="",
        messages=(),
        max_tokens=500,
        context=CallContext(run="r", role="executor", iteration=1, key="k"),
    )
    assert within_window(request, prompt=prompt, window=1_000).max_tokens == longest
