"""Reading and resolving specifications: files, defaults, flags, references."""

from perdure.interfaces.submission.facts import (
    Flags,
    NobodyJudges,
    Submission,
    Surroundings,
    may_judge,
)
from perdure.interfaces.submission.loading import load, load_data, store
from perdure.interfaces.submission.revising import revise
from perdure.interfaces.submission.workers_view import as_workers_see

__all__ = [
    "Flags",
    "NobodyJudges",
    "Submission",
    "Surroundings",
    "as_workers_see",
    "load",
    "load_data",
    "may_judge",
    "revise",
    "store",
]
