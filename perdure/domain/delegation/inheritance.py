"""Which inputs of a manager a worker is shown."""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.delegation.decisions import Envelope

# What steers a run is never handed down as data, whatever a manager calls its inputs.
CONTROL_KEYS = frozenset(
    {
        "agent", "budget", "control", "delegation", "gates", "goal", "kind", "learn", "metadata",
        "models", "recall", "rubric", "site", "skills", "tools", "workspace",
    }
)  # fmt: skip


def inherited(envelope: Envelope, inputs: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The named inputs that an envelope hands on; control keys and unknown ones are not."""
    return {
        name: inputs[name]
        for name in envelope.inherit
        if name in inputs and name not in CONTROL_KEYS
    }
