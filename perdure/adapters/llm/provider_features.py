"""What one provider behind the Messages API understands, and another does not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests differ between Claude and the embedded model.

    Attributes:
        cache: cache breakpoints are sent where a request wants some.
        strict_schema: schemas are rewritten to the subset that the API takes; else sent raw, for
            a grammar that enforces lengths too.
        sampling: seeds are sent too; a temperature goes to whoever is asked with one.
        chooses_tools: the model can decide by itself whether to call a tool.
    """

    cache: bool
    strict_schema: bool
    sampling: bool
    chooses_tools: bool


CLAUDE = Dialect(cache=True, strict_schema=True, sampling=False, chooses_tools=True)
EMBEDDED = Dialect(cache=False, strict_schema=False, sampling=True, chooses_tools=False)
