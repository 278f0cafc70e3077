"""Reading and resolving specifications: files, defaults, flags, references."""

from perdure.interfaces.submission.facts import Flags, Submission, Surroundings, may_judge
from perdure.interfaces.submission.loading import load, load_data, store
from perdure.interfaces.submission.revising import revise

__all__ = [
    "Flags",
    "Submission",
    "Surroundings",
    "load",
    "load_data",
    "may_judge",
    "revise",
    "store",
]
