"""What people write as YAML: a value that contradicts its tag is refused with its place."""

import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.strict_yaml import parse


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a: !!bool maybe", "line 1, column 4: this is no truth value"),
        ("a: !!int", "line 1, column 4: this is no number"),
        ("a: !!float", "line 1, column 4: this is no number"),
        ("a: [b, !!timestamp soon]", "line 1, column 8: this is no date"),
        ("!!timestamp soon: 1", "line 1, column 1: this is no date"),
        ("a: " + "9" * 5_000, "line 1, column 4: this is no number"),
        (f"a: {'1:' * 400}1.0", "line 1, column 4: this is no number"),
        ('a: "\\UFFFFFFFF"', "cannot be read as YAML or JSON"),
    ],
    ids=["switch", "no number", "no fraction", "date", "key", "digits", "of base 60", "character"],
)
def test_a_value_that_cannot_be_read_is_refused(written: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        parse(written, named="The file x.yaml")
    assert str(caught.value).startswith("The file x.yaml cannot be read")
