"""Callers over the network are told no folder of this host but those that they named."""

import sys
from pathlib import Path

import pytest

from perdure.interfaces.places import hider

HOME = "/srv/perdure-home"
TOLD = {
    "a blob": (f"The file {HOME}/blobs/ab/cdef cannot be read.", "cdef in the home folder"),
    "the home itself": (f"{HOME} is full.", "the home folder is full."),
    "the home with a slash": (f"in '{HOME}/'", "in 'the home folder'"),
    "a database": (f"sqlite:///{HOME}/perdure.sqlite: locked", "perdure.sqlite in the home folder"),
    "the program": (f"{sys.prefix}/lib/x.py, line 3", "x.py in the program, line 3"),
    "the user's home": (f"{Path.home()}/code/a", "~/code/a"),
    "a neighbour": (f"{HOME}-other/a", f"{HOME}-other/a"),
    "what a caller sent": ("workspace: found '/etc/x'", "workspace: found '/etc/x'"),
    "a route": ("GET /api/v1/loops/ID", "GET /api/v1/loops/ID"),
}


@pytest.mark.parametrize(("words", "said"), TOLD.values(), ids=TOLD)
def test_places_are_told_by_what_they_are(words: str, said: str) -> None:
    assert said in hider(HOME)(words)
