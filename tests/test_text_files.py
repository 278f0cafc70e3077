"""What people write is read as text, or refused with the reason."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.text_files import pipes_read_anew, read_text


@pytest.mark.parametrize("data", [b"gr\xc3\xbcn\n", b"\xef\xbb\xbfgr\xc3\xbcn\n"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, data: bytes) -> None:
    (file := tmp_path / "a.txt").write_bytes(data)

    assert read_text(file) == "grün\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"gr\xfcn", "is not UTF-8 text"), (b"x" * 11, "is larger than 10 bytes. Split it.")],
)
def test_what_is_no_short_text_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    (file := tmp_path / "a.txt").write_bytes(data)

    with pytest.raises(InvalidInput) as refused:
        read_text(file, most_bytes=10, too_large="Split it.")

    assert words in str(refused.value)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("name", ["a\0.csv", "\ud800.csv"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="is no path"):
        read_text(tmp_path / name)


def test_a_pipe_can_be_read_again(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with written(pipe, "goal: x\n"):
        assert read_text(pipe) == read_text(pipe) == "goal: x\n"
    for text in ("goal: y\n", "goal: z\n"):
        with written(pipe, text), pipes_read_anew():
            assert read_text(pipe) == read_text(pipe) == text
    assert read_text(pipe) == "goal: x\n"


@contextmanager
def written(pipe: Path, text: str) -> Generator[None]:
    writing = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writing.start()
    yield
    writing.join()


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(InvalidInput, match="is a folder"):
        read_text(tmp_path)
