"""The token of the codec server that is made for a home folder."""

from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.temporal.encryption_keys import CODEC_TOKEN, codec_token
from perdure.domain.foundation.errors import StoreError


def test_it_is_made_once(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path)
    made = codec_token(settings)
    assert (codec_token(settings), len(made) >= 32) == (made, True)


@pytest.mark.parametrize("left", ["", "\n", "short", "a token with spaces"])
def test_a_file_without_a_token_lets_nobody_in(tmp_path: Path, left: str) -> None:
    (tmp_path / CODEC_TOKEN).write_text(left)
    with pytest.raises(StoreError, match=r"codec\.token holds no token.*Delete the file"):
        codec_token(Settings.load(home=tmp_path))
