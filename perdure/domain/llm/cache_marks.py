"""Which beginnings of a prompt are marked for the provider's cache.

What is marked is written at a quarter more than its price, and read at a tenth of it: so only that
is marked which a later call will read. A judge's prompt and a draft that is written in one call are
read by nobody. A conversation with tools is read by its next call: that of an agent from the start,
that of a draft or a stage from its first tool results on, for many of these need no tool at all.
"""

from typing import Literal

# `first`: what stays the same in later prompts; `fixed`: system and tools, to be read;
# `read`: the conversation as the last call left it; `grow`: that, and what has come since.
CacheUse = Literal["none", "first", "fixed", "read", "grow"]


def cache_use(
    *, converses: bool, tools_off: bool, rounds: int, agent: bool, followed: bool | None
) -> CacheUse:
    """How a call uses the provider's cache.

    Args:
        converses: tools go along, in a prompt of the usual form.
        tools_off: but may not be called; that also makes the provider forget the messages.
        rounds: replies with tool calls so far.
        agent: the conversation is an agent's, which is there to use its tools.
        followed: whether other calls are sure to begin with the same, earlier ones among them;
            False: none follows; None: nobody knows.
    """
    if not converses:
        return "first" if followed else "none"
    written = rounds >= (1 if agent else 2)
    if tools_off:
        return "fixed" if written else "none"
    if followed is False:
        return "read" if written else "none"
    if agent or rounds:
        return "grow"
    return "first" if followed else "none"
