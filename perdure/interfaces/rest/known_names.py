"""Refuses query parameters that would be ignored.

A misspelt filter would silently list everything, and of a repeated one only the last would count.
"""

from fastapi import Request
from fastapi.dependencies.models import Dependant as Needs  # codespell:ignore dependant
from fastapi.routing import APIRoute

from perdure.interfaces.rest.error_responses import invalid, unknown


async def known_query(request: Request) -> None:
    """Refuse parameters that the route does not have or that come twice.

    Health checks may send anything.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not route.path.startswith("/api/"):
        return
    names = sorted(_asked(route.dependant))  # codespell:ignore dependant
    for name in request.query_params:
        if name not in names:
            raise invalid(f"query.{name[:80]}", unknown("parameter", name[:80], names))
        # No parameter of the API takes several values.
        if len(request.query_params.getlist(name)) > 1:
            raise invalid(f"query.{name}", "is given more than once; give one value")


def _asked(needs: Needs) -> set[str]:
    """The parameters of a route and of its dependencies."""
    own = {one.alias for one in needs.query_params}
    return own.union(*(_asked(inner) for inner in needs.dependencies))
