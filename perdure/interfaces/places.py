"""Places of this host, which callers from elsewhere are not told of."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import perdure

HOME = "the home folder"
PROGRAM = "the program"
Hide = Callable[[str], str]


def hider(home: str) -> Hide:
    """Names folders of this host by what they are, in words for callers over the network.

    What lies in the home folder of Perdure, in that of its user, or in the program's own folders is
    told by that and the last name of the path; paths elsewhere are those that a caller sent.
    """
    known: dict[str, str] = {}
    program = (sys.prefix, sys.base_prefix, str(Path(perdure.__file__).parents[1]))
    for places, name in (((home,), HOME), (program, PROGRAM), ((str(Path.home()),), "~")):
        for place in places:
            for form in (place, str(Path(place).resolve())):
                if len(form) > 1:
                    known.setdefault(form.rstrip("/"), name)
    return lambda text: _hidden(text, known)


def _hidden(text: str, known: Mapping[str, str]) -> str:
    # The longest first: the home folder may lie in that of its user.
    for place in sorted(known, key=len, reverse=True):
        inside = rf"{re.escape(place)}((?:/[^/\s'\":,;]+)*)/?(?![\w.-])"
        text = re.sub(inside, lambda found, name=known[place]: _told(name, found[1]), text)
    return text


def _told(name: str, below: str) -> str:
    if name == "~":
        return f"~{below}"
    last = below.rpartition("/")[2]
    return f"{last} in {name}" if last else name
