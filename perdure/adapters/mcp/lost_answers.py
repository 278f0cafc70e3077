"""Recognizes calls of a remote MCP server whose answer never came, or came in no usable form.

The SDK turns these into errors like those of a server. But a server that tells an error knows what
it did; one whose answer is lost may have done what it was asked for.
"""

import mcp.types as wire
from mcp import MCPError

# How the SDK begins the errors that it makes itself: an error of HTTP from whoever stands between,
# an answer that is cut, too long or unreadable, and one that is none.
_MADE_HERE = (
    (wire.INTERNAL_ERROR, "Server returned an error response"),
    (wire.PARSE_ERROR, "Failed to parse "),
    (wire.INVALID_REQUEST, "server answered a request with 202 Accepted"),
    (wire.INVALID_REQUEST, "Unexpected content type: "),
)


def is_lost(error: MCPError) -> bool:
    """Whether the SDK made this error because it got no answer over HTTP."""
    return any(error.code == code and error.message.startswith(words) for code, words in _MADE_HERE)
