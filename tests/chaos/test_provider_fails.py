"""R24, R27, R29, R31 to R34, R36: whatever a provider does is one outcome, booked once."""

import itertools
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from ground import HEARTBEAT_S, Ground, ground
from provider import MODEL, Play
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.spec import Timing

HUGE = "9" * 5_000
DEEP = '{"word": ' + "[" * 20_000 + "]" * 20_000 + "}"
MIB = 1024 * 1024


@pytest.mark.parametrize("status", [408, 409, 500, 503, 529])
async def test_r32_what_may_heal_is_tried_again(served: Ground, status: int) -> None:
    served.provider.plays = [[Play(status=status), Play(status=status), Play(text="healed")]]
    result = await served.check(await served.start())
    assert result.output == "healed"
    lines = served.provider.lines()
    assert [line.attempt for line in lines] == [1, 2, 3], "the SDK's own retries are off"
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(lines)]
    assert all(gap > 0.03 for gap in gaps), "it backs off"


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        pytest.param(Play(status=529), 2, id="overloaded"),
        pytest.param(Play(status=429, headers={"retry-after": "60"}), 1, id="wants a minute"),
        pytest.param(Play(status=400, error="invalid_request_error"), 1, id="invalid"),
        pytest.param(Play(text="what", stop="malformed_function_call"), 2, id="unusable"),
    ],
)
async def test_a_fallback_does_not_wait_for_the_model_before_it(
    served: Ground, first: Play, asked: int
) -> None:
    served.provider.choose = lambda body: (
        [first] if body["model"] == MODEL else [Play(text="the second")]
    )
    result = await served.check(await served.start(models={"executor": [MODEL, "second-model"]}))
    assert (result.outcome, result.output) == ("accepted", "the second")
    assert [body["model"] for body in served.provider.bodies] == [MODEL] * asked + ["second-model"]


async def test_a_role_is_called_as_its_settings_say_and_a_fallback_as_it_can(
    served: Ground,
) -> None:
    """The price sheet says that the second model takes no thinking."""
    served.provider.choose = lambda body: (
        [Play(status=400, error="invalid_request_error")]
        if body["model"] == MODEL
        else [Play(text="done")]
    )
    manner = {"thinking": 2_000, "effort": "low"}
    models = {"executor": [MODEL, "second-model"], "settings": {"executor": manner}}
    run = await served.start(models=models, agent={"temperature": 0.5})
    result = await served.check(run)
    assert result.outcome == "accepted"
    first, second = served.provider.bodies
    assert first["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert first["output_config"] == second["output_config"] == {"effort": "low"}
    assert "thinking" not in second
    assert "temperature" not in first, (
        "a model behind the Messages API takes none unless it says so"
    )
    switched = [
        event.data
        async for event in served.site.gateway.events(run)
        if event.type == "model_failed_over"
    ]
    assert "second-model does not take 2000" in str(switched[0]["left_out"])
    assert switched[0]["left_behind"] == f"thoughts and prompt cache of {MODEL}"


async def test_an_answer_that_cannot_be_used_is_not_bought_again_and_again(served: Ground) -> None:
    served.provider.plays = [Play(text="what", stop="malformed_function_call")]
    result = await served.check(await served.start())
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert len(served.provider.lines()) == 3
    assert result.error is not None
    assert "'malformed_function_call'" in result.error
    assert "name a second one" in (result.explanation or "")


@pytest.mark.parametrize("status", [400, 401, 403, 413])
async def test_r33_what_cannot_heal_is_tried_once(served: Ground, status: int) -> None:
    served.provider.plays = [Play(status=status, error="refused_for_good")]
    run = await served.start()
    result = await served.check(run)
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert len(served.provider.lines()) == 1
    assert result.spend.tokens == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("header", "least"),
    [
        ("2", 2.0),
        ("date", 0.0),  # held against the date itself: the first call may come late
        ("0", 0.0),
        ("-7", 0.0),
        ("soon", 0.0),
    ],
)
async def test_r31_the_providers_wish_is_kept(served: Ground, header: str, least: float) -> None:
    later = datetime.now(UTC) + timedelta(seconds=3)
    wish = format_datetime(later, usegmt=True) if header == "date" else header
    limited = Play(status=429, error="rate_limit_error", headers={"retry-after": wish})
    served.provider.plays = [[limited, Play(text="now")]]
    result = await served.check(await served.start())
    assert result.output == "now"
    first, second = served.provider.lines()
    if header == "date":
        assert second.at >= later.timestamp() - 1.0
    assert second.at - first.at >= least


@pytest.mark.parametrize(
    ("end", "calls", "output"),
    [("cut", 2, "second"), ("error_event", 2, "second"), ("reset_after_last", 1, "first")],
)
async def test_r34_a_stream_that_breaks(served: Ground, end: str, calls: int, output: str) -> None:
    served.provider.plays = [[Play(text="first", end=end), Play(text="second")]]  # type: ignore[arg-type]
    result = await served.check(await served.start())
    assert result.output == output
    assert len(served.provider.lines()) == calls
    rows = await served.site.parts.stores.journal.rows(result.id)
    assert len({row.key for row in rows}) <= calls
    if calls == 2:
        assert rows[0].usage.input_tokens, "what the broken attempt used is booked"


@pytest.mark.long
@pytest.mark.parametrize(
    ("play", "outcome", "reason"),
    [
        (Play(text="half a", stop="max_tokens"), "best_effort", "output_limit"),
        (Play(text="I will not", stop="refusal"), "failed", "refusal"),
        (Play(text="", blocks=False), "no_output", "no_output"),
        (Play(text="what", stop="made_up"), "accepted", "text_answer"),
    ],
    ids=["max_tokens", "refusal", "empty", "unknown"],
)
async def test_r29_each_stop_has_its_own_outcome(
    served: Ground, play: Play, outcome: str, reason: str
) -> None:
    served.provider.plays = [play]
    result = await served.check(await served.start())
    assert (result.outcome, result.reason) == (outcome, reason)
    assert result.truncated == (play.stop == "max_tokens")


async def test_r29_pause_turn_goes_on(served: Ground) -> None:
    served.provider.plays = [Play(text="thinking", stop="pause_turn"), Play(text="the end")]
    result = await served.check(await served.start())
    assert result.output is not None
    assert "the end" in result.output


@pytest.mark.parametrize(
    "raw",
    [
        f'{{"word": {HUGE}}}',
        DEEP,
        '{"word": "\\ud800"}',
        '{"word": NaN}',
        '{"word": "a\\u0000b"}',
        "[1, 2]",
        '{"word": "half',
    ],
    ids=["huge number", "deep", "surrogate", "nan", "nul", "no object", "no JSON"],
)
async def test_r27_arguments_that_cannot_be_written(served: Ground, raw: str) -> None:
    """Never paid for again and again: the model is told and goes on."""
    bad = Play(text="", calls=[("effect.again", {})], raw_arguments=raw)
    served.provider.plays = [[bad, Play(text="fine")], Play(text="fine")]
    result = await served.check(await served.start())
    assert (result.outcome, result.reason) == ("accepted", "text_answer")
    assert len(served.provider.lines()) == 2
    rows = await served.site.parts.stores.journal.rows(result.id)
    assert len({row.key for row in rows}) == 2, "no call was made a second time"


async def test_r27_a_text_with_a_lone_surrogate(served: Ground) -> None:
    served.provider.plays = [Play(text="half \ud800 a pair"), Play(text="fine")]
    result = await served.check(await served.start())
    assert len(served.provider.lines()) == 1, result
    assert (result.outcome, result.output) == ("accepted", "half \N{REPLACEMENT CHARACTER} a pair")


@pytest.mark.long
@pytest.mark.parametrize("size", [2 * MIB - 1, 2 * MIB + 1, 5 * MIB])
async def test_r24_long_answers_are_paid_for_once(served: Ground, size: int) -> None:
    served.provider.plays = [Play(text="x" * (size - 2) + "é")]
    result = await served.check(await served.start())
    assert len(served.provider.lines()) == 1
    assert result.output is not None
    assert len(result.output.encode()) == size


@pytest.mark.long
async def test_r36_a_provider_that_never_answers_ends_at_its_limit(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    timing = Timing(heartbeat=HEARTBEAT_S, model_call=2.0, attempts=2)
    address = server.client.service_client.config.target_host
    folder = tmp_path_factory.mktemp("silent")
    plays = (Play(end="never"),)
    async with (
        ground(folder, address, timing=timing, plays=plays) as silent,
        silent.site.worker(plugins=()),
    ):
        result = await silent.check(await silent.start())
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert len(silent.provider.lines()) == 2
    assert result.spend.unconfirmed["tokens"]


@pytest.mark.slow
async def test_eight_timeouts_end_as_timeouts_and_wait_longer_each_time(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each of them books what it may have used, which is no reason to say that nothing fits."""
    timing = Timing(heartbeat=HEARTBEAT_S, model_call=0.5, attempts=8)
    address = server.client.service_client.config.target_host
    folder = tmp_path_factory.mktemp("late")
    async with (
        ground(folder, address, timing=timing, plays=(Play(end="never"),)) as late,
        late.site.worker(plugins=(), backoff_initial_s=0.4, backoff_max_s=3.2),
    ):
        result = await late.check(await late.start(budget={"tokens": 2_000_000, "cost_usd": 20}))
        rows = await late.site.parts.stores.journal.rows(result.id)
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert result.error is not None
    assert "model_timeout" in result.error
    assert "does_not_fit" not in result.error
    assert len(late.provider.lines()) == len(rows) == 8
    sent = [line.at for line in late.provider.lines()]
    pauses = [later - earlier - 0.5 for earlier, later in itertools.pairwise(sent)]
    wanted = [0.4, 0.8, 1.6, 3.2, 3.2, 3.2, 3.2]
    # The provider notes a request when it reads it: on a busy machine, late in the call's 0.5 s.
    least = [0.8 * pause - 0.5 for pause in wanted]
    assert all(pause >= bound for pause, bound in zip(pauses, least, strict=True)), pauses


async def test_a_reply_without_an_account_is_kept_and_booked_as_unconfirmed(served: Ground) -> None:
    served.provider.plays = [Play(text="a reply of some length " * 20, accounts=False)]
    result = await served.check(await served.start(), unaccounted=1)
    assert (result.outcome, result.reason) == ("accepted", "text_answer")
    assert len(served.provider.lines()) == 1, "it is paid for once"
    rows = await served.site.parts.stores.journal.rows(result.id)
    assert len(rows) == 1
    assert rows[0].unconfirmed
    assert result.spend.unconfirmed["tokens"] == result.spend.tokens
    billed = served.provider.lines()[0]
    assert rows[0].usage.input_tokens >= billed.input_tokens
    assert rows[0].usage.output_tokens >= billed.output_tokens
