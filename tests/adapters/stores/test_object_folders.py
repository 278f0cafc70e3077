"""A folder for blobs that cannot be used is refused in words, and is never made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.adapters.stores.objects import Objects
from perdure.domain.foundation.errors import InvalidInput, PerdureError, StoreAway
from perdure.domain.installation.blob_place import BlobPlace


def missing(place: Path) -> None:
    """Nothing there, as below a disk that is not mounted."""


def a_file(place: Path) -> None:
    place.write_text("no folder", encoding="utf-8")


def a_link_to_nothing(place: Path) -> None:
    place.symlink_to(place.parent / "gone")


def below_a_file(place: Path) -> None:
    place.parent.rmdir()
    place.parent.write_text("no folder", encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "refusal", "cure"),
    [
        (missing, StoreAway, "Mount its disk or make it (mkdir -p "),
        (below_a_file, StoreAway, "Mount its disk or make it (mkdir -p "),
        (a_link_to_nothing, StoreAway, "Mount its disk or make it (mkdir -p "),
        (a_file, InvalidInput, "Correct PERDURE_BLOBS."),
    ],
)
def test_a_folder_that_cannot_be_used_is_named_with_its_cure(
    before: Callable[[Path], None], refusal: type[PerdureError], cure: str, tmp_path: Path
) -> None:
    place = tmp_path / "mount" / "blobs"
    place.parent.mkdir()
    before(place)
    with pytest.raises(refusal) as refused:
        Objects(BlobPlace.parse(f"file://{place}"))
    assert str(place) in str(refused.value)
    assert refused.value.cure is not None
    assert cure in refused.value.cure
    assert not place.is_dir()
