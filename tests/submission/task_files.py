"""A home with a folder for tasks, and the submission of what lies there."""

from collections.abc import Callable
from pathlib import Path

from perdure.submission.types import Submission

Load = Callable[..., Submission]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


TASK = """
kind: refine
goal: Write a text.
budget: {tokens: 1000}
rubric:
  - {name: short, evaluator: {check: length, unit: words, max: 60}}
  - {name: tone, evaluator: {judge: {}}}
"""
