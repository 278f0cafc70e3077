"""The payload codec that a setting names."""

from pathlib import Path

import pytest
from upside_codec import PLACE, Turning

from perdure.adapters.settings.variables import Settings
from perdure.adapters.temporal.custom_codec import payload_codec
from perdure.domain.foundation.errors import InvalidInput


def test_it_is_made_where_the_setting_says(tmp_path: Path) -> None:
    assert isinstance(payload_codec(Settings.load(home=tmp_path, payload_codec=PLACE)), Turning)
    assert payload_codec(Settings.load(home=tmp_path)) is None


WRONG = {
    "a module that is not there": ("not_there.at_all:made", "ModuleNotFoundError"),
    "a function that is not there": ("upside_codec:other", "AttributeError"),
    "a function that fails": ("upside_codec:failing", "OSError: no key"),
    "a function that ends the process": ("upside_codec:exiting", r"sys.exit\(2\)"),
    "no codec": ("upside_codec:nothing", "returns NoneType, no payload codec"),
}


@pytest.mark.parametrize(("place", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_had_is_told(place: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        payload_codec(Settings.load(home=tmp_path, payload_codec=place))
    assert place in caught.value.message
    assert "PERDURE_PAYLOAD_CODEC" in caught.value.cure


def test_no_place_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="PERDURE_PAYLOAD_CODEC"):
        Settings.load(home=tmp_path, payload_codec="upside_codec.made")


def test_it_goes_with_no_key(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path, payload_codec=PLACE, encryption_key="env:KEY")
    with pytest.raises(InvalidInput, match="both would encrypt"):
        payload_codec(settings)
