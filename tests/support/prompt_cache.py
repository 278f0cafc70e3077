"""What a provider bills for requests with marks for its prompt cache, and what without."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

WRITTEN, READ = 1.25, 0.1
LOOKED_BACK = 20
Body = Mapping[str, object]


@dataclass(frozen=True)
class Bill:
    """Input tokens of some requests, weighted by what they cost."""

    marked: float
    plain: float


def billed(bodies: Sequence[Body]) -> Bill:
    """Play requests in their order against a cache that forgets nothing."""
    kept: set[str] = set()
    bills = [_one(body, kept) for body in bodies]
    return Bill(marked=sum(bill.marked for bill in bills), plain=sum(bill.plain for bill in bills))


def _one(body: Body, kept: set[str]) -> Bill:
    digest, sizes, addresses, marks = hashlib.sha256(), [], [], []
    for index, (block, marked) in enumerate(_blocks(body)):
        digest.update(block.encode())
        addresses.append(digest.hexdigest())
        sizes.append(len(block) // 4)
        if marked:
            marks.append(index)
    found = [
        index
        for mark in marks
        for index in range(mark, max(-1, mark - LOOKED_BACK), -1)
        if addresses[index] in kept
    ]
    read = max(found, default=-1) + 1
    upto = max([read, *(mark + 1 for mark in marks)])
    kept.update(addresses[mark] for mark in marks)
    plain = sum(sizes)
    cost = READ * sum(sizes[:read]) + WRITTEN * sum(sizes[read:upto]) + sum(sizes[upto:])
    return Bill(marked=cost, plain=plain)


def _blocks(body: Body) -> Iterator[tuple[str, bool]]:
    """Tools, system, messages; another choice of tools makes other messages of them."""
    model, config = body.get("model"), body.get("output_config")
    for part in ("tools", "system"):
        given = body.get(part) or []
        assert isinstance(given, list)
        for block in given:
            yield _text(model, config, block), "cache_control" in block
    messages = body["messages"]
    assert isinstance(messages, list)
    for message in messages:
        for block in message["content"]:
            choice = body.get("tool_choice")
            yield _text(choice, message["role"], block), "cache_control" in block


def _text(*parts: object) -> str:
    bare = [
        {name: value for name, value in part.items() if name != "cache_control"}
        if isinstance(part, dict)
        else part
        for part in parts
    ]
    return json.dumps(bare, sort_keys=True)
