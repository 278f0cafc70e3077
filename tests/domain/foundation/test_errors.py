"""The tree in the module's docstring names every error with its place and its code."""

import inspect

from perdure.domain.foundation import errors
from perdure.domain.foundation.errors import PerdureError

STEP = 4
"""Characters of the drawing for each level below the root."""


def depth(error: type[PerdureError]) -> int:
    return error.__mro__.index(PerdureError)


def test_the_tree_names_every_error_in_its_place() -> None:
    drawn = (errors.__doc__ or "").splitlines()
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if error is PerdureError or not issubclass(error, PerdureError):
            continue
        line = next((one for one in drawn if name in one.split()), None)
        assert line is not None, name
        assert error.code in line.split(), name
        assert line.index(name) == STEP * depth(error), name
