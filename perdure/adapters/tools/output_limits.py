"""What a tool said, as it can be stored anywhere: valid UTF-8, no NUL, at most the hard cap."""

from perdure.adapters.logging.redacting import told
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.tools.definitions import ToolOutput

HARD_CAP_BYTES = 5 * 1024 * 1024
FAILURE_CHARACTERS = 256 * 1024  # looking through more would hold up the event loop


def tool_output(outcome: ToolOutcome, text: str, *, code: str = "") -> ToolOutput:
    """The text as it can be stored anywhere: valid UTF-8, no NUL, at most the hard cap.

    What a tool gives is content and stays as it is; the words of a failure lose their secrets.
    """
    if outcome != "ok":
        text = told(text[:FAILURE_CHARACTERS])
    data = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
    if len(data) <= HARD_CAP_BYTES:
        return ToolOutput(outcome=outcome, text=data.decode(), code=code)
    kept = data[:HARD_CAP_BYTES].decode(errors="ignore")
    note = f"\n[… cut at {HARD_CAP_BYTES:,} of {len(data):,} bytes; ask for less at once …]"
    return ToolOutput(outcome=outcome, text=kept + note, code=code, truncated=True)
