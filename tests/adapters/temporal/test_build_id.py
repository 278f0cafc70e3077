"""The build id: alike for the same code wherever it lies, another for other decisions."""

import os
import subprocess
import sys
from pathlib import Path

from other_version import next_version, other_decisions

from perdure.about import VERSION
from perdure.adapters.temporal.build_id import DIGITS, build_id

TELL = "from perdure.adapters.temporal.build_id import build_id; print(build_id())"


def _told(tree: Path | None) -> str:
    path = {} if tree is None else {"PYTHONPATH": str(tree)}
    done = subprocess.run(
        (sys.executable, "-P", "-c", TELL),
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_another_tree_of_one_version_has_another_build(tmp_path: Path) -> None:
    grown, deciding = next_version(tmp_path / "a"), other_decisions(tmp_path / "b")
    builds = [_told(None), _told(grown), _told(deciding)]
    assert builds[0] == build_id()
    assert len(set(builds)) == len(builds)
    version, digest = build_id().rsplit("-", 1)
    assert (version, len(digest)) == (VERSION, DIGITS)


def test_a_copy_has_the_same_build(tmp_path: Path) -> None:
    copy = next_version(tmp_path / "a")
    before = _told(copy)
    (copy / "perdure/gateway/gateway.py").write_text("# gateways decide nothing\n")
    assert _told(copy) == before
