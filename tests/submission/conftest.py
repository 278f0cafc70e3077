"""Fixtures of submissions: `home` and `submit`."""

from pathlib import Path

import pytest

from perdure.submission.loading import load
from perdure.submission.types import Flags, Submission, Surroundings
from tests.submission.task_files import Load


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture
def submit(home: Path) -> Load:
    def make(task: str, *, judges: bool = True, **flags: object) -> Submission:
        surroundings = Surroundings(
            folder=home / "work",
            user_defaults=home / "home" / "perdure.yaml",
            default_model="claude-test" if judges else "local",
        )
        return load(task, Flags(**flags), surroundings=surroundings)  # pyright: ignore[reportArgumentType]

    return make
