"""Words that stand in an address where an id could stand are no ids."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import RESERVED_IDS
from perdure.gateway.claim_run_id import checked_id
from perdure.interfaces.rest import app as rest
from perdure.interfaces.web import app as web

CHOSEN = {"{run}", "{experiment}", "{schedule}"}
"""The parts of addresses that people choose."""


def _hidden(paths: set[tuple[str, str]]) -> Iterator[str]:
    """Each word that stands where the same method has an id."""
    for (method, literal), (other, named) in product(paths, paths):
        ours, theirs = literal.split("/"), named.split("/")
        if method != other or len(ours) != len(theirs) or ours == theirs:
            continue
        apart = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
        if all(two in CHOSEN and not one.startswith("{") for one, two in apart):
            yield apart[0][0]


@pytest.mark.parametrize("routers", [rest.ROUTERS, web.ROUTERS], ids=["api", "pages"])
def test_every_word_that_hides_an_id_is_reserved(routers: Sequence[APIRouter]) -> None:
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    paths = {(method, route.path) for route in routes for method in route.methods or ()}
    hidden = set(_hidden(paths))
    assert hidden
    assert hidden <= RESERVED_IDS


@pytest.mark.parametrize("word", sorted(RESERVED_IDS))
def test_a_reserved_word_is_no_id(word: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a name"):
        checked_id(word)
