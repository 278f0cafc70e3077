"""What the wheel holds beside the modules."""

from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files() -> set[str]:
    """The paths in the wheel, of the files that hatchling takes from the folders."""
    included = WheelBuilder(str(ROOT)).recurse_included_files()
    return {one.distribution_path for one in included}


def test_the_types_of_the_package_count_for_who_installs_it(files: set[str]) -> None:
    assert "perdure/py.typed" in files  # PEP 561: without it type checkers see `Any`


@pytest.mark.parametrize(
    "module", ["perdure/workflows/agent.py", "perdure/activities/open_task.py", "perdure/client.py"]
)
def test_linked_folders_are_in_the_wheel(files: set[str], module: str) -> None:
    assert module in files
