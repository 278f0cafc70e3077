"""What the failures of a run's code mean, in the words of the server that refused it."""

import pytest

from perdure.gateway.run_problem import known_cause

REFUSED = (
    "BadSearchAttributes: invalid value for search attribute {name} of type {type}: value from"
)


@pytest.mark.parametrize(
    ("name", "type", "cure"),
    [
        ("PerdureKind", "Int", "search-attribute remove"),
        ("PerdureKind", "Keyword", "start the workers anew"),
        ("PerdureIteration", "Int", "start the workers anew"),
    ],
)
def test_only_an_attribute_of_the_wrong_type_is_to_be_removed(
    name: str, type: str, cure: str
) -> None:
    """To remove one loses what all runs of the namespace have there."""
    problem = known_cause(REFUSED.format(name=name, type=type), run="r", namespace="default")
    assert problem is not None
    assert cure in problem.cure
    assert ("remove" in problem.text) == ("remove" in cure)
    assert name in problem.found
