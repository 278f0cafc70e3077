"""Counts tokens, cost, seconds and tool outcomes of the steps that a worker runs."""

from opentelemetry.metrics import Counter, Histogram, Meter

from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run import metrics
from perdure.domain.run.metrics import Metric

INPUT, OUTPUT, UNCONFIRMED = "input", "output", "unconfirmed"
CACHE_READ, CACHE_CREATION = "cache_read", "cache_creation"


class Meters:
    """The instruments of the activity side; workflow code counts its own."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = _counter(meter, metrics.TOKENS)
        self._cost = _counter(meter, metrics.COST)
        self._seconds = _histogram(meter, metrics.MODEL_CALL_SECONDS)
        self._tools = _counter(meter, metrics.TOOL_CALLS)

    def model_call(self, *, model: str, step: str, status: str, seconds: float) -> None:
        """One attempt of a model call."""
        self._seconds.record(seconds, {"model": model, "step": step, "status": status})

    def account(self, account: AttemptTotals, *, model: str) -> None:
        """What all attempts of one logical call used; to be counted once for each call."""
        usage = account.usage
        written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
        lost = account.unconfirmed
        for kind, tokens in (
            (INPUT, usage.input_tokens),
            (OUTPUT, usage.output_tokens),
            (CACHE_READ, usage.cache_read_tokens),
            (CACHE_CREATION, written),
            (UNCONFIRMED, lost.prompt_tokens + lost.output_tokens),
        ):
            if tokens:
                self._tokens.add(tokens, {"model": model, "type": kind})
        if account.total_cost_usd:
            self._cost.add(float(account.total_cost_usd), {"model": model})

    def tool_call(self, *, tool: str, outcome: str) -> None:
        """One attempt of a tool call."""
        self._tools.add(1, {"tool": tool, "outcome": outcome})


def _counter(meter: Meter, metric: Metric) -> Counter:
    return meter.create_counter(metric.name, metric.unit, metric.description)


def _histogram(meter: Meter, metric: Metric) -> Histogram:
    return meter.create_histogram(metric.name, metric.unit, metric.description)
