"""What is worth a trace: work is, looking whether there is some is not.

Health checks and the polls of everybody who follows a run come several times a second, for as long
as a page is open. A trace each would bury those of the runs.
"""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from perdure.domain.foundation.names import READY_ACTIVITY

LOOKS = ("QueryWorkflow:", "HandleQuery:")
PROBES = frozenset({f"StartActivity:{READY_ACTIVITY}", f"RunActivity:{READY_ACTIVITY}"})


class WorkSampler(Sampler):
    """Drops looks at runs and questions to workers; the rest is for another sampler to say."""

    def __init__(self, otherwise: Sampler) -> None:
        self._otherwise = otherwise

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Whether a span is recorded."""
        if name.startswith(LOOKS) or name in PROBES:
            return SamplingResult(Decision.DROP)
        return self._otherwise.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )

    def get_description(self) -> str:
        """As the SDK names samplers."""
        return f"WorkSampler({self._otherwise.get_description()})"


def sampler_of(environment: dict[str, str]) -> WorkSampler:
    """The sampler that `OTEL_TRACES_SAMPLER` names, for what is worth a trace."""
    named = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    base = named.removeprefix("parentbased_")
    share = {"always_on": 1.0, "always_off": 0.0}.get(base, _share(environment))
    root = TraceIdRatioBased(share)
    return WorkSampler(ParentBased(root) if named != base else root)


def _share(environment: dict[str, str]) -> float:
    try:
        return min(max(float(environment.get("OTEL_TRACES_SAMPLER_ARG", "1")), 0.0), 1.0)
    except ValueError:
        return 1.0
