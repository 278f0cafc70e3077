"""What an invoice has to add up to."""

import pytest

from invoice import total
from money import cents, euros


@pytest.mark.parametrize(("text", "value"), [("1.20", 120), ("0.05", 5), ("10", 1000)])
def test_amounts_are_read_in_cents(text, value):
    assert cents(text) == value


def test_amounts_are_written_with_two_digits():
    assert euros(1005) == "10.05"


def test_a_total_adds_up_lines_and_tax():
    assert total([("pen", "1.20", 3), ("book", "9.99", 1)], tax=19) == "16.17"
