"""What a typed line means, and what is said of one that means nothing."""

import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.cli.repl.parse_line import Meant, meaning

KNOWN = ("loops", "run", "status", "up", "logs", "api")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Meant("nothing")),
        ("  # a note", Meant("nothing")),
        ("/", Meant("help")),
        ("/quit", Meant("leave")),
        (" /exit \n", Meant("leave")),
        ("/help", Meant("help")),
        ("/help run", Meant("help", ("run",))),
        ("/loops status abc", Meant("command", ("loops", "status", "abc"))),
        ('/run "a goal" --detach', Meant("command", ("run", "a goal", "--detach"))),
        ("/up --detach", Meant("command", ("up", "--detach"))),
        ("/logs worker", Meant("command", ("logs", "worker"))),
        ("/api token list", Meant("command", ("api", "token", "list"))),
    ],
)
def test_a_line_is_read(line: str, expected: Meant) -> None:
    assert meaning(line, known=KNOWN) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("status", "begin with a slash"),
        ("/lops", "Did you mean /loops?"),
        ("/qiut", "Did you mean /quit?"),
        ('/run "a goal', "Close the quotes"),
        ("/up", "holds a terminal"),
        ("/logs --follow", "holds a terminal"),
        ("/api", "holds a terminal"),
    ],
)
def test_what_cannot_be_run_says_what_to_do(line: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        meaning(line, known=KNOWN)
