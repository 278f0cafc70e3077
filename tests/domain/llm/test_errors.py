"""How often a call that failed is made again."""

from typing import get_args

import pytest

from perdure.domain.llm.errors import UNUSABLE_ATTEMPTS, ModelErrorKind, tries_after


@pytest.mark.parametrize("tries", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", get_args(ModelErrorKind))
def test_only_an_answer_that_cannot_be_used_is_bought_less_often(
    kind: ModelErrorKind, tries: int
) -> None:
    most = UNUSABLE_ATTEMPTS if kind == "bad_reply" else tries
    assert tries_after(kind, tries=tries) == min(tries, most)
