"""What a caller may choose so that a start that is sent twice starts one run."""

from typing import NamedTuple

from perdure.domain.specs import Spec
from perdure.gateway.gateway import Gateway


class Chosen(NamedTuple):
    """An id or a key of the caller's own."""

    run_id: str | None = None
    idempotency_key: str | None = None

    async def start(self, gateway: Gateway, spec: Spec) -> str:
        """Send the start, as the caller would."""
        return await gateway.start(spec, run_id=self.run_id, idempotency_key=self.idempotency_key)
