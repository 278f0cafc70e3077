"""How a role's models are called: the longest reply, and how they go about it."""

from pydantic import Field

from perdure.domain.base import Frozen
from perdure.domain.models import ModelCard

# A reply that cannot be streamed within its time is lost as a whole, so nobody asks for a longer
# one by default. Measured paces lie between this and three times as much.
TOKENS_PER_SECOND = 50
LEAST_REPLY_TOKENS = 8_192
MOST_REPLY_TOKENS = 1_000_000


class CallSettings(Frozen):
    """What is asked of one role's models; what is left open is the model's own default.

    `max_output_tokens` is the longest reply. One that is cut there is asked for again with twice
    the room, as far as model and budget allow.
    """

    max_output_tokens: int | None = Field(default=None, ge=16, le=MOST_REPLY_TOKENS)


def reply_limit(
    card: ModelCard, *, wanted: int | None, seconds: float, raised: int = 0, most: int | None = None
) -> int:
    """The longest reply to ask of a model in tokens, before the budget has its say.

    Args:
        card: the model.
        wanted: what the call or its role asks for; None for as much as can be had.
        seconds: how long a reply may take.
        raised: how often a reply was cut at its limit: each time the limit doubles.
        most: what it is never raised above.
    """
    usual = wanted or max(LEAST_REPLY_TOKENS, int(seconds * TOKENS_PER_SECOND))
    limits = (usual << raised, card.max_output, max(most, 1) if most is not None else None)
    return min(limit for limit in limits if limit is not None)
