"""The live view of a run: a few lines that change in place while it works."""

from collections.abc import Sequence

from rich.console import Group
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.views.layout import DIM, LIFECYCLE_STYLES, address, line, pairs, stack
from perdure.interfaces.cli.views.status import (
    gate_lines,
    parts_line,
    question_line,
    score_line,
    spend_line,
    state_line,
    step_line,
    tree_lines,
    trouble_line,
    web_address,
)
from perdure.interfaces.formatting import one_line, plural
from perdure.interfaces.run_tree import Below

CHILDREN_SHOWN = 12
DRAFT_LINES = 5
DRAFT_CHARACTERS = 70


def live_view(
    status: RunStatus,
    *,
    spinner: Spinner | None = None,
    below: Sequence[Below] = (),
    draft: str = "",
) -> Group:
    """The view below the story of an open run; `draft` is its newest output."""
    facts: list[tuple[str, Text | str | None]] = [
        ("step", step_line(status)),
        ("trouble", trouble_line(status)),
        ("score", score_line(status)),
        ("parts", parts_line(status.parts)),
        ("spend", spend_line(status.budget)),
        ("children", tree_lines(below, limit=CHILDREN_SHOWN)),
        ("draft", draft_lines(draft)),
    ]
    web = address("Web UI", web_address(status))
    if web is not None:
        # A wrapped line would break the redrawing, so it is cut here; the result shows the full
        # address.
        web.overflow = "ellipsis"
    return stack(
        _headline(status, spinner),
        pairs(facts),
        web,
        *(gate_lines(gate, status.id) for gate in status.gates),
        # No event of the run tells of them, and without a keyboard nobody is asked.
        *(question_line(question) for question in status.questions),
        line(("Ctrl-C leaves the run going.", DIM)),
    )


def draft_lines(draft: str) -> Text | None:
    """The first lines of a draft, cut to fit, and how many follow."""
    rows = [row for row in draft.splitlines() if row.strip()]
    if not rows:
        return None
    more = len(rows) - DRAFT_LINES
    rest = f"\n… and {plural(more, 'line')} more" if more > 0 else ""
    shown = "\n".join(one_line(row, DRAFT_CHARACTERS) for row in rows[:DRAFT_LINES])
    return line(shown, (rest, DIM))


def _headline(status: RunStatus, spinner: Spinner | None) -> Table:
    row = Table.grid(padding=(0, 1, 0, 0))
    style = LIFECYCLE_STYLES[status.lifecycle]
    turning = spinner if status.lifecycle == "running" else None
    mark = turning or Text("●", style=style)
    row.add_row(mark, line((status.id, "bold"), (" · ", DIM)) + state_line(status))
    return row
