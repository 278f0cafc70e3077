"""What an attempt is presumed to have used whose provider never said so.

A worker dies, a stream is cut, a call is given up: the provider bills what it had produced, or the
whole reply, and tells nobody. The prompt is known. Of the output at least what was streamed is
billed; how much more there would have been is told best by the run's other replies. Twice the
larger of the two is booked: replies differ severalfold in length, and a long one is likelier to be
caught by a death than a short one. Over many deaths the sum is then not below the bill, and far
from the worst case, which is twenty times a typical reply.
"""

import math

from perdure.domain.llm.usage import Usage

MARGIN = 2
# One or two short replies say little of the next: the mean counts two of an agent's usual length.
USUAL_REPLY_TOKENS = 512
USUAL_REPLIES = 2


def typical_output(*, replies: int, tokens: int) -> int:
    """The output tokens to expect of a reply after so many of its like, `tokens` long together."""
    known = tokens + USUAL_REPLIES * USUAL_REPLY_TOKENS
    return math.ceil(known / (replies + USUAL_REPLIES))


def presumed(
    seen: Usage | None, *, prompt_tokens: int, max_tokens: int, typical_output: int | None
) -> Usage:
    """The usage to book for an attempt whose end is unknown.

    Args:
        seen: the prompt as the provider reported it at the head of its answer, with our count of
            what was streamed since; None when no answer had begun.
        prompt_tokens: the prompt by count or estimate, where the provider did not report it.
        max_tokens: no reply is longer.
        typical_output: what the run's own replies let expect; None where nobody said.
    """
    streamed = 0 if seen is None else seen.output_tokens
    usual = USUAL_REPLY_TOKENS if typical_output is None else typical_output
    output = max(min(MARGIN * max(streamed, usual), max_tokens), 0)
    if seen is None or not seen.prompt_tokens:
        return Usage(input_tokens=prompt_tokens, output_tokens=output)
    return seen.model_copy(update={"output_tokens": output})
