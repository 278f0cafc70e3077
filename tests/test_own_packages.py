"""A user's module of the same name, on the path where plugins are found, is not taken for ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOOK = (
    "import perdure.worker, workflows, activities; print(workflows.__file__, activities.__file__)"
)


@pytest.mark.long
@pytest.mark.parametrize("name", ["workflows", "activities"])
@pytest.mark.parametrize("kind", ["module", "package"])
def test_the_worker_finds_its_own_packages(tmp_path: Path, name: str, kind: str) -> None:
    broken = "raise SystemExit('the module of a user')"
    if kind == "package":
        (tmp_path / name).mkdir()
    place = tmp_path / f"{name}.py" if kind == "module" else tmp_path / name / "__init__.py"
    place.write_text(broken)
    found = subprocess.run(
        [sys.executable, "-P", "-c", LOOK],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [
        str(ROOT / "workflows/__init__.py"),
        str(ROOT / "activities/__init__.py"),
    ]
