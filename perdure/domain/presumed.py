"""What an attempt is presumed to have used whose provider never said so.

A worker dies, a stream is cut, a call is given up: the provider bills what it had produced, or the
whole reply, and tells nobody. The prompt is known. Of the output at least what was streamed is
billed; how much more there would have been is told best by the run's other replies. Half as much
again as the larger of the two is booked: on the average not below the bill, and never near the
worst case, which is twenty times a typical reply.
"""

import math

from perdure.domain.usage import Usage

MARGIN = 1.5
# Before a run has a reply of its own: three times the mean length of a reply in agents' loops.
FIRST_REPLY_TOKENS = 1_024


def presumed(
    seen: Usage | None, *, prompt_tokens: int, max_tokens: int, typical_output: int | None
) -> Usage:
    """The usage to book for an attempt whose end is unknown.

    Args:
        seen: the prompt as the provider reported it at the head of its answer, with our count of
            what was streamed since; None when no answer had begun.
        prompt_tokens: the prompt by count or estimate, where the provider did not report it.
        max_tokens: no reply is longer.
        typical_output: the mean of the run's own replies, None before there was one.
    """
    streamed = 0 if seen is None else seen.output_tokens
    if typical_output is None:
        output = max(FIRST_REPLY_TOKENS, math.ceil(MARGIN * streamed))
    else:
        output = math.ceil(MARGIN * max(streamed, typical_output))
    output = max(min(output, max_tokens), 0)
    if seen is None or not seen.prompt_tokens:
        return Usage(input_tokens=prompt_tokens, output_tokens=output)
    return seen.model_copy(update={"output_tokens": output})
