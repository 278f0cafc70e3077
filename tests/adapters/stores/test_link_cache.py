"""The cache of links stays within its memory and drops what was longest unused."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.stores.transcripts import OBJECTS_BYTES, LinkCache
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.transcript import Link

LINK = Link(parent=None, messages=(), messages_total=0, tokens_total=TokenSizes())


def _held(cache: LinkCache, names: str) -> str:
    return "".join(name for name in names if cache.get(name) is not None)


def test_the_longest_unused_link_goes_first() -> None:
    cache = LinkCache(3 * (OBJECTS_BYTES + 10))
    for name in "abc":
        cache.put(name, LINK, size=10)
    cache.get("a")
    cache.put("d", LINK, size=10)
    assert _held(cache, "abcd") == "acd"


def test_a_link_larger_than_the_cache_drops_nothing() -> None:
    cache = LinkCache(OBJECTS_BYTES + 30)
    cache.put("a", LINK, size=10)
    cache.put("b", LINK, size=31)
    assert _held(cache, "ab") == "a"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40))))
def test_it_never_holds_more_than_its_limit(puts: list[tuple[str, int]]) -> None:
    limit = 3 * OBJECTS_BYTES + 100
    cache = LinkCache(limit)
    sizes: dict[str, int] = {}
    for name, size in puts:
        if cache.get(name) is None:
            sizes[name] = size
        cache.put(name, LINK, size=size)
        held = sum(sizes[name] + OBJECTS_BYTES for name in _held(cache, "abcdef"))
        assert cache._held == held <= limit


def test_a_dropped_link_leaves_its_room() -> None:
    cache = LinkCache(3 * (OBJECTS_BYTES + 10))
    cache.put("a", LINK, size=10)
    assert cache.drop("a") is LINK
    assert cache.drop("a") is None
    assert (cache._held, _held(cache, "a")) == (0, "")
