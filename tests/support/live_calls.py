"""Rows of model calls in flight."""

from perdure.domain.run.live_text import LiveCall, call_name

CALL = LiveCall(
    run="r",
    call=call_name("c"),
    key="k",
    attempt=1,
    iteration=1,
    phase="executing",
    role="executor",
    model="m",
)


def live_call(name: str = "c", **changes: object) -> LiveCall:
    """A call by its name, with other facts where they matter."""
    return LiveCall.model_validate(CALL.model_dump() | {"call": call_name(name)} | changes)
