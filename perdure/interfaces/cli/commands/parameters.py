"""The parameters that commands share."""

from typing import Annotated, Literal

from cyclopts import Parameter

from perdure.interfaces.cli.session import Session

# The kinds that can be run; the vocabulary of ids and filters knows more.
Kind = Literal["agent", "refine", "roles", "delegation"]
Given = Annotated[Session, Parameter(parse=False)]
OneRun = Annotated[str, Parameter(name="ID")]
Plugins = Annotated[tuple[str, ...], Parameter(name="--plugin", negative="")]
Ids = Annotated[str, Parameter(name="ID")]
