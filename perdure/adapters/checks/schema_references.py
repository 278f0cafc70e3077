"""Follows the references of a JSON schema before anything is checked with it."""

from collections.abc import Iterator

from referencing import Registry
from referencing._core import Resolver
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, Schema

from perdure.domain.foundation.problems import format_value
from perdure.extending.check_decorator import CheckFailed

# What these hold is applied to the same value; all other keywords lead to a part of it.
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_NAMED = "dependentSchemas"
_Found = tuple[Schema, Resolver[Schema]]


def require_references(schema: Schema) -> None:
    """Refuse references that lead nowhere, or in a circle without going deeper into a value.

    Raises:
        CheckFailed: one does; nothing is fetched to find out.
    """
    resolver = Registry[Schema]().resolver_with_root(DRAFT202012.create_resource(schema))
    # By identity, as mappings have no hash; the root keeps all of them alive meanwhile.
    seen: set[int] = set()
    done: set[int] = set()
    waiting: list[_Found] = [(schema, resolver)]
    while waiting:
        contents, resolver = waiting.pop()
        if id(contents) in seen:
            continue
        seen.add(id(contents))
        _require_no_circle(contents, resolver, done)
        waiting.extend(_referred(contents, resolver))
        for sub in DRAFT202012.create_resource(contents).subresources():
            waiting.append(_inside(sub.contents, resolver))


def _require_no_circle(contents: Schema, resolver: Resolver[Schema], done: set[int]) -> None:
    """Follow what is applied to one value, which must come to an end; `done` was followed."""
    waiting: list[tuple[_Found, frozenset[int]]] = [((contents, resolver), frozenset())]
    while waiting:
        (one, finds), around = waiting.pop()
        if id(one) in around:
            raise CheckFailed(
                f"the JSON schema refers to itself without end at {format_value(one)}.",
                cure="Let every circle go through a property or an item.",
            )
        # Each once: parts that refer to each other have far more ways through them than members.
        if id(one) not in done:
            done.add(id(one))
            inner = around | {id(one)}
            waiting.extend((found, inner) for found in _in_place(one, finds))


def _in_place(contents: Schema, resolver: Resolver[Schema]) -> Iterator[_Found]:
    yield from _referred(contents, resolver)
    if not isinstance(contents, dict):
        return
    for name in _LISTS:
        for one in contents[name] if isinstance(contents.get(name), list) else ():
            yield _inside(one, resolver)
    for name in _SINGLE:
        if isinstance(contents.get(name), dict):
            yield _inside(contents[name], resolver)
    for one in contents[_NAMED].values() if isinstance(contents.get(_NAMED), dict) else ():
        yield _inside(one, resolver)


def _referred(contents: Schema, resolver: Resolver[Schema]) -> Iterator[_Found]:
    """What the `$ref` of a schema names, if it has one."""
    reference: object = contents.get("$ref") if isinstance(contents, dict) else None
    if not isinstance(reference, str):
        return
    try:
        found = resolver.lookup(reference)
    except Unresolvable:
        raise CheckFailed(
            f"the JSON schema's $ref {format_value(reference)} names nothing inside it, and "
            "nothing is fetched.",
            cure="Keep every $ref inside the schema, such as #/$defs/NAME.",
        ) from None
    yield found.contents, found.resolver


def _inside(contents: Schema, resolver: Resolver[Schema]) -> _Found:
    """A part of a schema, which may have a name of its own that references in it begin with."""
    return contents, resolver.in_subresource(DRAFT202012.create_resource(contents))
