"""An installation's settings in the form that people read."""

from perdure.domain.foundation.base import FrozenModel


class Setting(FrozenModel):
    """One setting: its value as a person would write it, and where that comes from.

    `services` is what the embedded services use where that is another value.
    """

    name: str
    value: str
    source: str
    services: str = ""
