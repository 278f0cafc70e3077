"""What a token may start: its folders, and what needs the scope `execute`."""

from pathlib import Path

from perdure.interfaces.tokens import is_below
from perdure.submission.layers import Fields
from perdure.submission.loading import load_data
from perdure.submission.types import Surroundings


def test_a_folder_behind_a_link_and_dots_is_where_a_run_would_start(tmp_path: Path) -> None:
    ours, other = tmp_path / "tenant-a", tmp_path / "tenant-b"
    for folder in (ours / "releases" / "v1", other / "deep"):
        folder.mkdir(parents=True)
    (ours / "current").symlink_to("releases/v1")
    (ours / "way").symlink_to(other / "deep")
    left = f"{ours}/current/../../tenant-b"
    task: Fields = {"kind": "agent", "goal": "g", "workspace": left, "models": {"executor": "x"}}
    assert load_data(task, surroundings=Surroundings(folder=None)).spec.workspace == str(other)
    assert not is_below(left, [str(ours)])
    # The trials of an experiment start in the folder as it is written, so links count there.
    assert not is_below(f"{ours}/way/../deep", [str(ours)])
    assert is_below(f"{ours}/current/..", [str(ours)])
    assert is_below(f"{ours}/releases/../current", [str(ours)])
