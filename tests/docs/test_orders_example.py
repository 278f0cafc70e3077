"""The worked example of the page on embedding: its own tests pass with its own folder alone."""

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
# Names that ours might take: nothing of Perdure lies at the top of an installation but `perdure`.
OWN = ("workflows/__init__.py", "activities/__init__.py", "worker.py", "starter.py")


@pytest.mark.slow
async def test_the_tests_of_the_example_pass_beside_packages_of_their_own(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "orders"))
    for name in OWN:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit('nobody asked for this')\n")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", str(folder),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()[-3000:]
