"""Lists keep readable in narrow terminals: a table with room, else rows below each other."""

from io import StringIO

import pytest
from inline_snapshot import snapshot
from rich.console import Console, RenderableType
from rich.text import Text

from perdure.interfaces.cli.views.layout import Listing, plain, table

COLUMNS = ("run", "state", "score", "goal")
ROWS = (
    ("roles-change-code-workspace-5d9ed2", Text("completed"), "0.90", "Change the code " * 4),
    ("agent-x-1", "running", "", "Say hi"),
)


def drawn(width: int, view: RenderableType | None = None) -> str:
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(view or Listing(COLUMNS, ROWS, right=("score",)))
    return "\n".join(row.rstrip() for row in captured.get().splitlines())


def test_with_room_it_is_a_table_whose_last_column_wraps() -> None:
    assert drawn(90) == snapshot("""\
run                                 state      score  goal
roles-change-code-workspace-5d9ed2  completed   0.90  Change the code Change the code
                                                      Change the code Change the code
agent-x-1                           running           Say hi\
""")


def test_without_room_each_row_is_told_below_its_name() -> None:
    assert drawn(60) == snapshot("""\
roles-change-code-workspace-5d9ed2
  completed · score 0.90 · Change the code Change the code
  Change the code Change the code
agent-x-1
  running · Say hi\
""")


@pytest.mark.parametrize("width", [20, 40, 60, 79, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_name_is_lost(width: int) -> None:
    told = drawn(width)
    assert all(len(row) <= width for row in told.splitlines())
    assert ROWS[0][0] in told.replace("\n", "")


def test_a_pipe_gets_one_line_for_each_row() -> None:
    assert len(plain(Listing(COLUMNS, ROWS)).splitlines()) == 1 + len(ROWS)


def test_wide_characters_count_twice() -> None:
    rows = [("名" * 20, "x" * 30)]
    told = Console(file=StringIO(), width=60, force_terminal=True, color_system=None)
    with told.capture() as captured:
        told.print(Listing(("run", "goal"), rows))
    assert captured.get().splitlines()[0].split() == ["名" * 20]


COSTS = ("#", "model", "cost", "tokens", "share", "")
SPENT = (
    ("1", "claude-sonnet-4-5", "$123.45", "1,234,567", "100 %", "estimated"),
    ("12", "local", "$0.0012", "812", "0 %", ""),
)


@pytest.mark.parametrize("width", range(12, 90))
def test_no_figure_of_a_table_is_cut(width: int) -> None:
    told = drawn(width, table(COSTS, SPENT, right=("#", "cost", "tokens", "share")))
    assert all(len(row) <= width for row in told.splitlines())
    for figure in (cell for row in SPENT for cell in row[2:5]):
        assert figure.replace(" ", "") in "".join(told.split())
    if width >= 24:
        assert "$123.45" in told and "1,234,567" in told


def test_without_room_a_block_names_its_cells() -> None:
    assert drawn(40, table(COSTS, SPENT, right=("#", "cost", "tokens", "share"))) == snapshot("""\
# 1
  model claude-sonnet-4-5 · cost $123.45
  · tokens 1,234,567 · share 100 % ·
  estimated
# 12
  model local · cost $0.0012 · tokens
  812 · share 0 %\
""")
