"""Settings: show the values and their sources; write one into a file."""

from collections.abc import Sequence

from rich.console import RenderableType

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.installation.configuration import Setting
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, stack, table


def config_view(found: Sequence[Setting]) -> RenderableType:
    """Name, value and source; settings that somebody has set come first."""
    ordered = sorted(found, key=lambda one: (one.source == "default", one.name))
    rows = [(one.name, one.value or "–", one.source) for one in ordered]
    differing = [
        line((f"the services use {one.name} {one.services}: the home's file says so", DIM))
        for one in ordered
        if one.services
    ]
    return stack(table(("setting", "value", "from"), rows, whole=("setting",)), *differing)


RISING = (
    "In rising order: defaults, perdure.yaml of the home, of this folder, the environment, flags; "
    "plugins add up. What the home's file names, no shell changes for the services."
)


async def config(
    name: str | None = None,
    value: str | None = None,
    /,
    *,
    here: bool = False,
    unset: bool = False,
    trust: bool = False,
    session: Given,
) -> None:
    """Show the settings and where each comes from; with a name and a value, set one.

    Args:
        name: A setting, such as model or plugins. Default: all.
        value: The value to write; lists are words with commas.
        here: Write into perdure.yaml of this folder, instead of the home folder, which services
            follow.
        unset: Remove the setting from the file.
        trust: Trust this folder's file to set what runs programs or moves keys.
    """
    if trust:
        _trust(session)
    elif name is not None and (value is not None or unset):
        if unset and value is not None:
            raise InvalidInput("--unset takes no value.", cure="Leave out the value, or --unset.")
        path = session.context.config.put(name, value, here=here)
        told = f"{name} is {'taken out of' if unset else 'set in'} {path}"
        session.output.show(line(("✓ ", GOOD), told), {"type": "set", "file": str(path)})
    elif here or unset:
        raise InvalidInput(
            "--here and --unset need a setting.",
            cure="For example: perdure config workers 2 --here.",
        )
    else:
        _show(session, name)


def _show(session: Session, name: str | None) -> None:
    found = session.context.config.settings()
    chosen = found if name is None else [_named(name, found)]
    data = [one.model_dump() for one in chosen]
    session.output.show(config_view(chosen), {"type": "config", "settings": data})
    if name is None:
        session.output.note(RISING, style=DIM)


def _named(name: str, found: Sequence[Setting]) -> Setting:
    """The setting with this name; raises `NotFound` with the nearest name."""
    known = {one.name: one for one in found}
    key = name.lower().removeprefix("perdure_")
    if key in known:
        return known[key]
    hint = did_you_mean(key, known)
    raise NotFound(f"There is no setting {name!r}.{hint}", cure="`perdure config` lists them all.")


def _trust(session: Session) -> None:
    path = session.context.config.trust()
    told = f"{path} counts, until its settings change" if path else "nothing here asks for trust"
    session.output.show(line(("✓ ", GOOD), told), {"type": "trusted", "file": str(path or "")})
