import pytest

from perdure.domain.installation.deployment import Standing, standing


@pytest.mark.parametrize(
    ("worker", "door", "found"),
    [
        ("0.1.0", "0.1.9", "alike"),
        ("0.1.0", "0.2.0", "older"),
        ("0.2.0", "0.1.0", "newer"),
        ("0.1.0", "0.3.0", "apart"),
        ("0.3.0", "0.1.0", "apart"),
        ("1.0.0", "0.9.0", "apart"),
        ("1.2.0.dev1", "1.2.0", "alike"),
        ("1", "0.1.0", "alike"),
        ("test", "0.1.0", "alike"),
        ("", "", "alike"),
    ],
)
def test_door_and_worker_go_together_within_one_minor_version(
    worker: str, door: str, found: Standing
) -> None:
    assert standing(worker, door) == found
