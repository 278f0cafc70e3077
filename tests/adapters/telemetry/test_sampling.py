"""Health checks and polls leave no trace; work does, as the environment says."""

import pytest
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from perdure.adapters.telemetry.spans import sampler_of


def recorded(name: str, **environment: str) -> bool:
    found = sampler_of(environment).should_sample(None, 1, name)
    return found.decision is Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize(
    "name",
    [
        "QueryWorkflow:events",
        "QueryWorkflow:status",
        "HandleQuery:events",
        "HandleQuery:status",
        "HandleQuery:__temporal_workflow_metadata",
        "StartActivity:ready",
        "RunActivity:ready",
    ],
)
def test_looking_is_not_traced(name: str) -> None:
    assert not recorded(name)


@pytest.mark.parametrize(
    "name",
    [
        "StartWorkflow:RefineLoop",
        "RunWorkflow:RefineLoop",
        "RunActivity:call_model",
        "StartActivity:call_tool",
        "SignalWorkflow:pause",
        "HandleUpdate:answer",
    ],
)
def test_work_is_traced(name: str) -> None:
    assert recorded(name)


@pytest.mark.parametrize(
    ("sampler", "share", "wanted"),
    [
        ("always_on", "", True),
        ("always_off", "", False),
        ("parentbased_always_off", "", False),
        ("traceidratio", "0", False),
        ("parentbased_traceidratio", "1", True),
        ("traceidratio", "much", True),
    ],
)
def test_the_environment_names_the_share(sampler: str, share: str, wanted: bool) -> None:
    given = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": share}
    assert recorded("RunWorkflow:RefineLoop", **given) is wanted


@pytest.mark.parametrize(
    ("sampler", "followed"), [("", True), ("parentbased_always_on", True), ("always_on", False)]
)
def test_whoever_asked_decides_unless_a_sampler_is_named(sampler: str, followed: bool) -> None:
    unsampled = NonRecordingSpan(SpanContext(1, 1, is_remote=True))
    found = sampler_of({"OTEL_TRACES_SAMPLER": sampler}).should_sample(
        set_span_in_context(unsampled), 1, "RunWorkflow:RefineLoop"
    )
    assert (found.decision is Decision.DROP) is followed
