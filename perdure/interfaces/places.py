"""Hides paths of this host from callers over the network."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import perdure

HOME = "the home folder"
PROGRAM = "the program"
Hide = Callable[[str], str]


def hider(home: str) -> Hide:
    """Make a function that replaces folders of this host in a text by a description.

    A path in Perdure's home folder or in the program's folders becomes that place and the last name
    of the path. In the user's home folder it begins with `~`. Other paths stay, as the caller sent
    them.
    """
    known: dict[str, str] = {}
    program = (sys.prefix, sys.base_prefix, str(Path(perdure.__file__).parents[1]))
    for places, name in (((home,), HOME), (program, PROGRAM), ((str(Path.home()),), "~")):
        for place in places:
            for form in (place, str(Path(place).resolve())):
                if len(form) > 1:
                    # The first name stays, as two of these may be one folder.
                    known.setdefault(form.rstrip("/"), name)
    return lambda text: _hidden(text, known)


def _hidden(text: str, known: Mapping[str, str]) -> str:
    # Longest first, as Perdure's home folder may be inside the user's.
    for place in sorted(known, key=len, reverse=True):
        inside = rf"{re.escape(place)}((?:/[^/\s'\":,;]+)*)/?(?![\w.-])"
        text = re.sub(inside, lambda found, name=known[place]: _told(name, found[1]), text)
    return text


def _told(name: str, below: str) -> str:
    if name == "~":
        return f"~{below}"
    last = below.rpartition("/")[2]
    return f"{last} in {name}" if last else name
