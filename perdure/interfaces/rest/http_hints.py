"""What to do next, for callers over HTTP: requests in place of commands, and never nothing.

Errors come from parts that all doors share, whose cures name commands of the shell. What a
caller over HTTP can do is told as a request; what only the operator can do stays a command.
"""

import re
from collections.abc import Mapping

LOOPS = "/api/v1/loops"
DESCRIBED = "GET /api/v1/openapi.json"
_RUN = r"(?:--run )?(?P<run>[A-Za-z0-9._-]*[A-Za-z0-9])"
# Commands as errors name them, with what they are over HTTP; the longest forms first.
_REQUESTS: tuple[tuple[str, str], ...] = (
    (rf"perdure fork {_RUN} --from-iteration N", f"POST {LOOPS}, as a run of its own"),
    (rf"perdure fork {_RUN}", f"POST {LOOPS}, as a run of its own"),
    (rf"perdure result {_RUN}", f"GET {LOOPS}/{{run}}/result"),
    (rf"perdure watch {_RUN}", f"GET {LOOPS}/{{run}}/events"),
    (rf"perdure status {_RUN}", f"GET {LOOPS}/{{run}}"),
    (rf"perdure history {_RUN}", f"GET {LOOPS}/{{run}}/history"),
    (rf"perdure transcript {_RUN}", f"GET {LOOPS}/{{run}}/transcript"),
    (rf"perdure retry {_RUN}", f"POST {LOOPS}/{{run}}/retry"),
    (rf"perdure stop {_RUN}", f"POST {LOOPS}/{{run}}/stop"),
    (rf"perdure resume {_RUN}", f"POST {LOOPS}/{{run}}/resume"),
    (r'perdure loops start (?P<name>[\w-]+) "[^"]*"', f"POST {LOOPS} with kind roles"),
    (r'perdure run "[^"]*"', f"POST {LOOPS}"),
    (r"perdure run", f"POST {LOOPS}"),
    (r'perdure new(?: "[^"]*")?', f"POST {LOOPS}"),
    (r"perdure list", f"GET {LOOPS}"),
    (r"perdure gates", "GET /api/v1/gates"),
    (r"perdure answer", f"POST {LOOPS}/RUN/gates/GATE/answer"),
    (r"perdure add", f"POST {LOOPS}/RUN/input"),
    (r"perdure definitions", f"GET {LOOPS}/definitions"),
    (r"perdure schema(?: KIND| loop-definition)?", DESCRIBED),
    # No request lists these; their tokens and names are the operator's.
    (r"perdure (?:sessions|projects)", "the operator's list"),
)
_COMMANDS = tuple(
    (re.compile(rf"(?P<tick>`?){pattern}(?(tick)`?)(?![\w-])"), request)
    for pattern, request in _REQUESTS
)
_BY_STATUS: Mapping[int, str] = {
    400: f"Send it as {DESCRIBED} describes it.",
    401: "Send `authorization: Bearer TOKEN`.",
    404: f"{DESCRIBED} names every path.",
    405: "Use a method that the header `allow` names.",
    406: "Ask for application/json.",
    409: f"Look at it first: GET {LOOPS}/ID shows what a run allows.",
    413: "Send less.",
    415: "Send `content-type: application/json`.",
    422: f"Correct it and send it again; {DESCRIBED} describes every field.",
    429: "Wait for as long as the header `retry-after` says.",
    503: "Try again in a few seconds; the operator reads `perdure doctor` and `perdure logs`.",
}


def over_http(words: str) -> str:
    """The same words with requests in place of commands."""
    for command, request in _COMMANDS:
        words = command.sub(lambda found, request=request: _request(request, found), words)
    return words


def cure_of(status: int, cure: str) -> str:
    """What to do next; where an error leaves it open, what its status asks for."""
    return over_http(cure) or _BY_STATUS.get(status, "Ask the operator to read `perdure logs api`.")


def _request(request: str, found: "re.Match[str]") -> str:
    told = request.format(run=found.groupdict().get("run") or "ID")
    return f"`{told}`" if found["tick"] else told
