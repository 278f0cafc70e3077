"""No link, race or special file leads out of the folder."""

import os
import threading
from contextlib import suppress
from itertools import count

import pytest
from deep_folders import deepen, removed_again

from perdure.adapters.files.rooted_files import MOST_LEVELS, RootedDirectory, remove_folder
from perdure.domain.foundation.errors import ToolFailure

SECRET = b"the secret outside"


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ws"
    (folder / "dir").mkdir(parents=True)
    (folder / "dir" / "file").write_bytes(b"inside")
    return folder


@pytest.mark.parametrize(
    "parts",
    [("..", "outside", "file"), ("dir", "..", "..", "outside", "file"), (".",), ("",), ("dir/..",)],
    ids="/".join,
)
@pytest.mark.parametrize("guarded", [False, True])
def test_a_caller_is_not_trusted_with_names(root, outside, parts, guarded):
    with RootedDirectory(root, guarded=guarded) as files:
        for ask in (files.read, files.status, files.entries, files.link_target, files.remove):
            with pytest.raises(ToolFailure, match="no name of a file"):
                ask(parts)
        with files.folder(()) as top, pytest.raises(ToolFailure, match="no name of a file"):
            files.replace(top, "../outside/file", b"x")
    assert (outside / "file").read_bytes() == SECRET


@pytest.mark.parametrize("name", [".env", ".ENV", "prod.env", ".env.local", ".git"])
def test_what_is_protected_is_not_opened_for_models(root, name):
    (root / name).write_bytes(SECRET)
    with RootedDirectory(root, guarded=True) as files:
        for ask in (files.read, lambda parts: files.file(parts).__enter__()):
            with pytest.raises(ToolFailure) as caught:
                ask((name,))
            assert caught.value.reason == "protected"
    with RootedDirectory(root) as files:
        assert files.read((name,)) == SECRET


def make_link(root, outside):
    (root / "bad").symlink_to(outside / "file")


def make_linked_folder(root, outside):
    (root / "bad").symlink_to(outside)


def make_pipe(root, outside):
    os.mkfifo(root / "bad")


@pytest.mark.parametrize(
    ("make", "parts", "reason"),
    [
        (make_link, ("bad",), "link"),
        (make_linked_folder, ("bad", "file"), "not_a_folder"),
        (make_pipe, ("bad",), "not_a_file"),
        (lambda root, outside: (root / "bad").symlink_to("dir/file"), ("bad",), "link"),
        (lambda root, outside: (root / "bad").mkdir(), ("bad",), "not_a_file"),
        (lambda root, outside: None, ("absent",), "not_found"),
        (lambda root, outside: None, ("dir", "file", "x"), "not_a_folder"),
    ],
    ids=["link", "linked folder", "pipe", "inner link", "folder", "absent", "below a file"],
)
def test_reading_refuses(root, outside, make, parts, reason):
    make(root, outside)
    with RootedDirectory(root) as files, pytest.raises(ToolFailure) as caught:
        files.read(parts)
    assert caught.value.reason == reason
    assert parts[0] in caught.value.message


def test_a_sibling_with_the_same_prefix_is_another_folder(root):
    (root.parent / "ws_sibling").mkdir()
    with RootedDirectory(root) as files:
        assert [entry.name for entry in files.entries(())] == ["dir"]


def test_size_cap(root):
    (root / "big").write_bytes(b"x" * 11)
    with RootedDirectory(root) as files:
        assert files.read(("big",), cap=11) == b"x" * 11
        with pytest.raises(ToolFailure, match="larger than 10"):
            files.read(("big",), cap=10)


def test_walk_shows_links_and_does_not_follow_them(root, outside):
    (root / "bad").symlink_to(outside)
    with RootedDirectory(root) as files:
        found = {"/".join(parts): entry.kind for parts, entry in files.walk()}
    assert found == {"bad": "link", "dir": "folder", "dir/file": "file"}


def test_removing_a_tree_leaves_what_links_point_at(root, outside):
    (root / "dir" / "bad").symlink_to(outside)
    with RootedDirectory(root) as files:
        files.remove(("dir",))
    assert (outside / "file").read_bytes() == SECRET
    assert list(root.iterdir()) == []


def test_replacing_a_link_leaves_its_target(root, outside):
    make_link(root, outside)
    with RootedDirectory(root) as files, files.locked(()) as folder:
        files.replace(folder, "bad", b"new")
    assert (outside / "file").read_bytes() == SECRET
    assert (root / "bad").read_bytes() == b"new"


def swap_race(root, outside, tries):
    """Swap a folder for a link to another place, again and again, while reading and writing."""
    (root / "real").mkdir()
    (root / "real" / "file").write_bytes(b"inside")
    (root / "real").rename(root / "swap")
    done = threading.Event()

    def swap():
        while not done.is_set():
            (root / "swap").rename(root / "away")
            (root / "swap").symlink_to(outside)
            (root / "swap").unlink()
            (root / "away").rename(root / "swap")

    swapper = threading.Thread(target=swap)
    swapper.start()
    reads = 0
    try:
        with RootedDirectory(root) as files:
            # On a busy machine the swapper may hold the folder away for long: until something
            # was read, nothing was raced against. The test's own time limit ends a race never won.
            for attempt in count():
                if attempt >= tries and reads:
                    break
                with suppress(ToolFailure):
                    assert files.read(("swap", "file")) != SECRET
                    reads += 1
                with suppress(ToolFailure), files.locked(("swap",)) as folder:
                    files.replace(folder, f"new-{attempt % 7}", b"from a tool")
    finally:
        done.set()
        swapper.join()
    return reads


def untouched(outside):
    return {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}


def test_swap_race(root, outside):
    assert swap_race(root, outside, 500) > 0
    assert untouched(outside)


@pytest.mark.slow
def test_swap_race_ten_thousand_times(root, outside):
    assert swap_race(root, outside, 10_000) > 0
    assert untouched(outside)


@pytest.fixture
def deep(tmp_path):
    with removed_again(tmp_path / "deep") as folder:
        deepen(folder)
        yield folder


def test_a_deep_folder_is_walked_as_far_as_it_may_cost(deep):
    (deep / "b").write_bytes(b"next to it")
    with RootedDirectory(deep) as files:
        walked = [parts for parts, _ in files.walk()]
        short = [parts for parts, _ in files.walk(levels=2)]
    assert (len(walked), len(walked[-2]), walked[-1]) == (MOST_LEVELS + 1, MOST_LEVELS, ("b",))
    assert short == [("a",), ("a", "a"), ("b",)]


def test_a_deep_folder_is_removed_with_what_is_read_only_and_no_link_is_followed(deep, outside):
    (deep / "a" / "link").symlink_to(outside)
    (deep / "a" / "closed" / "inner").mkdir(parents=True)
    (deep / "a" / "closed").chmod(0o555)
    with RootedDirectory(deep) as files:
        files.remove(("a",))
    assert os.listdir(deep) == []
    assert (outside / "file").read_bytes() == SECRET


def test_a_folder_is_removed_by_its_path_and_one_that_is_gone_is_no_error(deep):
    remove_folder(deep)
    remove_folder(deep)
    assert not deep.exists()


@pytest.mark.parametrize("parts", [("n" * 256,), ("dir", "n" * 300), ("n" * 256, "file")])
def test_nothing_is_at_a_name_that_the_file_system_refuses(root, parts):
    with RootedDirectory(root) as files:
        assert files.status(parts) is None
        assert files.entry(parts) is None
        with pytest.raises(ToolFailure, match="refuses the name"):
            files.read(parts)
