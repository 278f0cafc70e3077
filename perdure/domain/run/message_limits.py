"""How much people may send to a run, whose state travels through every execution.

What is above a bound is refused in words, while the run goes on.
"""

import json

from perdure.domain.run.messages import AnyMessage

TEXT_LIMIT_BYTES = 8 * 1024
AMENDMENT_LIMIT_BYTES = 64 * 1024
WAITING_KEPT = 100
WAITING_CHARACTERS = 128 * 1024
FLOOD = 1_500
NEVER_FLOODED = frozenset({"stop", "resume", "answer"})


def too_long(text: str | None) -> bool:
    """Whether a text is above what a signal may carry (8 KiB)."""
    return text is not None and len(text.encode(errors="replace")) > TEXT_LIMIT_BYTES


def too_large(message: AnyMessage) -> str | None:
    """Why an amendment is not carried, when it is above what a state may grow by at once."""
    told = json.dumps(message.model_dump(mode="json", exclude_defaults=True))
    if len(told) <= AMENDMENT_LIMIT_BYTES:
        return None
    return "the amendment is above 64 KiB; a run carries it to its end"


def too_much(*waiting: str) -> str | None:
    """Why one more text is not taken, when more would wait than a prompt could hold.

    Args:
        waiting: the texts that no model call has seen yet, with the new one.
    """
    if len(waiting) > WAITING_KEPT:
        return f"{WAITING_KEPT} messages wait to be read already; send it after the next model call"
    if sum(map(len, waiting)) > WAITING_CHARACTERS:
        return (
            "more than 128 thousand characters would wait to be read; send it after the next model"
            " call, or as a file with `perdure add`"
        )
    return None


def flooded(verb: str, *, handled: int) -> str | None:
    """Why an update is refused before it costs history; what ends or frees a run always passes.

    Args:
        verb: what is asked.
        handled: messages since this execution began; it makes room when the step in flight ends.
    """
    if handled < FLOOD or verb in NEVER_FLOODED:
        return None
    return f"{handled:,} messages came since the run last made room; send it after the next step"
