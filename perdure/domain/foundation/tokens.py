"""Token estimates by content class, without a tokenizer.

Characters per token differ up to three times between prose, code and CJK text (measured on a
bundled vocabulary: 4.5, 2.3, 1.3), so sizes are kept per class and multiplied by a factor that is
calibrated per model from reported usage.
"""

import re
from typing import Self

from perdure.domain.foundation.base import FrozenModel

CHARACTERS_PER_TOKEN = {"prose": 4.5, "code": 2.3, "cjk": 1.3}
MESSAGE_OVERHEAD_TOKENS = 4
CALIBRATION_WEIGHT = 0.5
CALIBRATION_RANGE = (0.25, 4.0)

_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_CODE_MARKS = re.compile(r"[{}()\[\];=<>|&$#\\/_\"'`*+]")
_CODE_SHARE = 0.06


class TokenSizes(FrozenModel):
    """Estimated tokens of a text, split by content class; `media` is the most of images and PDFs.

    The calibration of a model is for text alone: nothing may make an upper bound smaller.
    """

    prose: int = 0
    code: int = 0
    cjk: int = 0
    media: int = 0

    def __add__(self, other: Self) -> "TokenSizes":
        return TokenSizes(
            prose=self.prose + other.prose,
            code=self.code + other.code,
            cjk=self.cjk + other.cjk,
            media=self.media + other.media,
        )

    @property
    def total(self) -> int:
        """All classes together, in tokens."""
        return self.text + self.media

    @property
    def text(self) -> int:
        """What the calibration of a model is for: all but images and PDFs."""
        return self.prose + self.code + self.cjk

    @property
    def likely(self) -> int:
        """What it will probably take: images and PDFs seldom reach half of their bound."""
        return self.text + self.media // 2


def estimate(text: str) -> TokenSizes:
    """Estimate the tokens of `text`; a line counts as code when marks of code are dense in it."""
    cjk = len(_CJK.findall(text))
    prose = code = 0
    for line in text.splitlines(keepends=True):
        rest = len(line) - len(_CJK.findall(line)) if cjk else len(line)
        if len(_CODE_MARKS.findall(line)) > _CODE_SHARE * len(line):
            code += rest
        else:
            prose += rest
    return TokenSizes(
        prose=_tokens(prose, "prose"), code=_tokens(code, "code"), cjk=_tokens(cjk, "cjk")
    )


def calibrate(*, factor: float, estimated: int, reported: int) -> float:
    """Move a model's factor half way to what the provider reported for one prompt."""
    if estimated <= 0 or reported <= 0:
        return factor
    low, high = CALIBRATION_RANGE
    moved = factor + CALIBRATION_WEIGHT * (reported / estimated - factor)
    return round(min(high, max(low, moved)), 4)


def _tokens(characters: int, kind: str) -> int:
    return -(-characters * 10 // round(CHARACTERS_PER_TOKEN[kind] * 10))
