"""A home folder is its user's alone, also one that was there before."""

import os
import stat
from pathlib import Path

import pytest

from perdure.adapters.files import private
from perdure.adapters.files.private import make_private, write_once
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import StoreError
from perdure.local_services.state import HomeFiles


def _open_home(folder: Path) -> Path:
    home = folder / "home"
    for name in ("", "blobs", "logs", "run"):
        (home / name).mkdir(mode=0o755, parents=True)
    for name in ("temporal.sqlite", "temporal.sqlite-wal", "state.json", "notes.txt"):
        (home / name).write_text("")
        (home / name).chmod(0o644)
    home.chmod(0o755)
    return home


def _open_to_others(home: Path) -> set[str]:
    found = (home, *home.rglob("*"))
    return {path.name for path in found if path.stat().st_mode & 0o077}


async def test_stores_make_a_home_private_at_every_opening(tmp_path: Path) -> None:
    home = _open_home(tmp_path)
    for _ in range(2):
        stores = await open_stores(home)
        await stores.blobs.put(b"content")
        await stores.close()
        assert _open_to_others(home) <= {"notes.txt"}
        (home / "perdure.sqlite").chmod(0o644)
        home.chmod(0o755)


def test_services_make_a_home_private_at_every_start(tmp_path: Path) -> None:
    home = _open_home(tmp_path)
    HomeFiles(home).make()
    assert _open_to_others(home) == {"notes.txt"}


def test_a_folder_that_is_shared_on_purpose_keeps_its_mode(tmp_path: Path) -> None:
    home = _open_home(tmp_path)
    home.chmod(0o1777)
    make_private(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o1777
    assert _open_to_others(home) == {"home", "notes.txt"}


def test_what_belongs_to_somebody_else_is_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _open_home(tmp_path)

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(private.Path, "chmod", refuse)
    with pytest.raises(StoreError, match=f"chmod go-rwx '{home}'"):
        make_private(home)


def test_a_file_is_written_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert [write_once(path, text) for text in ("first", "second")] == ["first", "first"]
    assert (path.stat().st_mode & 0o777, [*tmp_path.iterdir()]) == (0o600, [path])


def test_of_two_processes_the_first_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "token", os.link

    def late(draft: Path, place: Path) -> None:
        place.write_text("of the other", encoding="ascii")
        link(draft, place)

    monkeypatch.setattr(os, "link", late)
    assert write_once(path, "mine") == "of the other"
    assert [*tmp_path.iterdir()] == [path]
