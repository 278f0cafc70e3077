"""Links that stay inside are followed; none leads out or to what is protected, nor by a race."""

import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from perdure.adapters.files.links import inside
from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.domain.foundation.errors import ToolFailure

SECRET = b"canary"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "file").write_bytes(SECRET)
    return made


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    made = tmp_path / "ws"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "src" / "a.py").write_text("a")
    (made / "src" / "deep" / "b.py").write_text("b")
    (made / ".env").write_bytes(SECRET)
    (made / ".git" / "hooks").mkdir(parents=True)
    (made / ".github").mkdir()
    return made


def link(root: Path, name: str, target: str) -> None:
    (root / name).symlink_to(target)


STAYS = {
    "to a file": (("one", "src/a.py"), "one", "src/a.py"),
    "to a folder": (("dir", "src"), "dir/a.py", "src/a.py"),
    "of a link": (("dir", "src"), "dir/deep/../a.py", None),
    "upwards inside": (("src/deep/up", "../a.py"), "src/deep/up", "src/a.py"),
    "through a folder and back": (("round", "src/deep/../../src/./a.py"), "round", "src/a.py"),
    "to the top": (("src/top", ".."), "src/top/src/a.py", "src/a.py"),
    "to nothing yet": (("new", "src/new.py"), "new", "src/new.py"),
    "no link at all": (("other", "x"), "src/a.py", "src/a.py"),
}


@pytest.mark.parametrize(("made", "path", "real"), STAYS.values(), ids=STAYS)
def test_links_inside_lead_where_they_say(
    root: Path, made: tuple[str, str], path: str, real: str | None
) -> None:
    link(root, *made)
    with RootedDirectory(root, guarded=True) as files:
        found = inside(files, tuple(path.split("/")))
        assert "/".join(found) == (real or "src/a.py")
        if (root / path).exists():
            assert files.read(found) == (root / path).read_bytes()


LEAVES = {
    "out": ("bad", "../outside/file", "bad", "link"),
    "out by a folder": ("bad", "../outside", "bad/file", "link"),
    "out and in again": ("bad", "../ws/src/a.py", "bad", "link"),
    "absolute": ("bad", "/etc/passwd", "bad", "link"),
    "absolute, inside": ("bad", "{root}/src/a.py", "bad", "link"),
    "out from below": ("src/deep/bad", "../../../outside/file", "src/deep/bad", "link"),
    "a circle": ("bad", "bad", "bad", "link"),
    "a magic link": ("bad", "/proc/self/fd/0", "bad", "link"),
    "a magic folder": ("bad", "/proc/self/cwd", "bad/file", "link"),
    "a dotenv file": ("bad", ".env", "bad", "protected"),
    "a dotenv file by a folder": ("bad", "src/..", "bad/.env", "protected"),
    "version control": ("bad", ".git", "bad/hooks", "protected"),
}


@pytest.mark.parametrize(("name", "target", "path", "reason"), LEAVES.values(), ids=LEAVES)
def test_no_other_link_is_followed(
    root: Path, name: str, target: str, path: str, reason: str
) -> None:
    link(root, name, target.format(root=root))
    with RootedDirectory(root, guarded=True) as files, pytest.raises(ToolFailure) as caught:
        inside(files, tuple(path.split("/")))
    assert caught.value.reason == reason
    assert "canary" not in caught.value.message


def test_a_chain_of_links_ends(root: Path) -> None:
    for number in range(60):
        link(root, f"l{number}", f"l{number + 1}")
    link(root, "l60", "src/a.py")
    with RootedDirectory(root, guarded=True) as files:
        assert inside(files, ("l30",)) == ("src", "a.py")
        with pytest.raises(ToolFailure, match="more than 40 links"):
            inside(files, ("l0",))


def test_links_that_double_do_not_take_for_ever(root: Path) -> None:
    link(root, "b0", "src")
    for number in range(1, 40):
        link(root, f"b{number}", "/".join([f"b{number - 1}/.."] * 20 + [f"b{number - 1}"]))
    with RootedDirectory(root, guarded=True) as files, pytest.raises(ToolFailure, match="links"):
        inside(files, ("b39",))


def test_what_is_run_later_is_not_written_through_a_link(root: Path) -> None:
    link(root, "ci", ".github")
    with RootedDirectory(root, guarded=True) as files:
        assert inside(files, ("ci", "x.yml"), use="read") == (".github", "x.yml")
        with pytest.raises(ToolFailure) as caught:
            inside(files, ("ci", "x.yml"), use="write")
        assert caught.value.reason == "protected"


def test_a_link_that_is_swapped_meanwhile_leads_nowhere_else(root: Path, outside: Path) -> None:
    """The link, and the folder that it leads to, change places with links to another folder."""
    link(root, "swap", "src")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for target in ("../outside", "src", str(outside), "src"):
                (root / "new").symlink_to(target)
                os.replace(root / "new", root / "swap")
            (root / "src").rename(root / "away")
            (root / "src").symlink_to(outside)
            (root / "src").unlink()
            (root / "away").rename(root / "src")

    swapper = threading.Thread(target=swap)
    swapper.start()
    reads = 0
    try:
        with RootedDirectory(root, guarded=True) as files:
            for attempt in count():
                if attempt >= 500 and reads:
                    break
                with suppress(ToolFailure):
                    found = inside(files, ("swap", "file" if attempt % 2 else "a.py"))
                    assert files.read(found) == b"a"
                    reads += 1
                with suppress(ToolFailure):
                    place = inside(files, ("swap", "made"), use="write")
                    with files.locked(place[:-1]) as folder:
                        files.replace(folder, place[-1], b"from a tool")
    finally:
        done.set()
        swapper.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}
