"""A structured reply inside a stage's text, with the words around it."""

from dataclasses import dataclass

from perdure.domain.foundation.json_extraction import Found
from perdure.domain.llm.structured_replies import BadReply, Fields, find_reply

_FRAME = "` \t\r\n{}[]"


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """An object and the text before and after it."""

    fields: Fields
    before: str
    after: str

    @property
    def around(self) -> str:
        """The text without the object."""
        return f"{self.before}\n{self.after}"

    @property
    def concludes(self) -> bool:
        """Whether the reply ends with it or begins with it, fences and brackets aside."""
        return not self.after.strip(_FRAME) or not self.before.strip(_FRAME).removesuffix("json")


def embedded(text: str, found: Found) -> EmbeddedObject:
    """An object of a text with what stands around it."""
    return EmbeddedObject(found.fields, before=text[: found.start], after=text[found.end :])


def find_embedded(text: str, *names: str) -> EmbeddedObject | BadReply | None:
    """The one object in a text that has one of these fields; None without any."""
    found = find_reply(text, *names)
    return embedded(text, found) if isinstance(found, Found) else found
