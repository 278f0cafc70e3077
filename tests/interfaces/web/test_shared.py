"""Answers that many ask for at once."""

import asyncio

import pytest

from perdure.interfaces.web.shared import Shared


class Asked:
    """Counts how often an answer is made, which takes until it is let go."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()

    async def answer(self) -> int:
        self.made += 1
        await self.go.wait()
        return self.made


async def test_many_at_once_share_one_answer_until_it_is_old() -> None:
    now, asked = [0.0], Asked()
    shared = Shared[int](1, clock=lambda: now[0])
    asking = [asyncio.create_task(shared.get("a", asked.answer)) for _ in range(5)]
    while not asked.made:
        await asyncio.sleep(0)
    now[0] = 2  # it is being made for longer than it is kept, and still is not made twice
    asking.append(asyncio.create_task(shared.get("a", asked.answer)))
    await asyncio.sleep(0)
    asked.go.set()
    assert await asyncio.gather(*asking) == [1] * 6
    assert await shared.get("a", asked.answer) == 2
    assert await shared.get("a", asked.answer) == 2
    assert await shared.get("b", asked.answer) == 3


async def test_who_leaves_does_not_take_the_answer_along() -> None:
    asked, shared = Asked(), Shared[int](1)
    first = asyncio.create_task(shared.get("a", asked.answer))
    second = asyncio.create_task(shared.get("a", asked.answer))
    await asyncio.sleep(0)
    first.cancel()
    asked.go.set()
    assert await second == 1


async def test_a_refusal_is_told_to_all_and_not_kept() -> None:
    shared, tries = Shared[int](1), [0]

    async def refused() -> int:
        tries[0] += 1
        await asyncio.sleep(0)
        raise ValueError("no")

    asking = [asyncio.create_task(shared.get("a", refused)) for _ in range(3)]
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert [str(one) for one in found] == ["no"] * 3
    with pytest.raises(ValueError, match="no"):
        await shared.get("a", refused)
    assert tries == [2]
