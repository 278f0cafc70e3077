"""Results of foreign activities that ran, and whose result did not arrive.

To the server such an activity has failed like one that did nothing. Only the words of its worker
tell the two apart.
"""

# The words of the SDKs and of servers for a result above the limit of a payload.
TOO_LARGE_TYPES = frozenset({"PayloadsTooLarge"})
TOO_LARGE_WORDS = ("Complete result exceeds size limit",)
NOT_ENCODED_TYPES = frozenset({"PydanticSerializationError"})
NOT_ENCODED_WORDS = ("is not JSON serializable", "has no known converter")
# How the Python SDK encodes a result: a traceback with this line begins behind the activity, also
# if a converter of the user's own failed with an error of its own.
ENCODING_LINE = "data_converter.encode([result])"
# How SDKs end an activity that somebody paused or reset at the server while it ran.
STOPPED_TYPES = frozenset({"ActivityPause", "ActivityReset"})


def why_unsent(kind: str, message: str, trace: str) -> str | None:
    """Why the result of an activity did not arrive, and what helps; None if it simply failed.

    An activity may raise the same error while it works. It then counts as one that ran, which is
    the safe side.

    Args:
        kind: the type of its error.
        message: what the error says.
        trace: the traceback of its worker, if it sent one.
    """
    if kind in STOPPED_TYPES:
        return "it was paused or reset at the server, and ended before it gave a result"
    if kind in TOO_LARGE_TYPES or any(words in message for words in TOO_LARGE_WORDS):
        return (
            "its result is larger than Temporal takes (usually 2 MB or 4 MB). Ask it for less, if "
            "its arguments allow that; otherwise its activity has to return less"
        )
    if (
        kind in NOT_ENCODED_TYPES
        or any(words in message for words in NOT_ENCODED_WORDS)
        or ENCODING_LINE in trace
    ):
        return (
            f"its result cannot be encoded ({kind}: {message}). Its activity has to return what "
            "the data converter of its worker takes, such as texts, numbers, lists and objects"
        )
    return None
