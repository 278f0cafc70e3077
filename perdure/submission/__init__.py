"""Reading and resolving specifications: files, defaults, flags, references."""

from perdure.submission.fork_changes import revise
from perdure.submission.loading import load, load_data, store
from perdure.submission.types import Flags, NobodyJudges, Submission, Surroundings, may_judge
from perdure.submission.workers_view import as_workers_see

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
