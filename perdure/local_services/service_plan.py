"""Chooses ports and addresses of the services, which are kept once a service has run."""

from collections.abc import Callable
from functools import cached_property

from perdure.adapters.http_server import LOOPBACK, choose
from perdure.adapters.settings.variables import Settings
from perdure.adapters.temporal.encryption_keys import codec_token
from perdure.domain.ports import Endpoints
from perdure.local_services import service_commands
from perdure.local_services.service import ServiceCommand
from perdure.local_services.state import HomeFiles
from perdure.local_services.ui_guard import Inside, inside_for

ANY_ADDRESS = frozenset({"0.0.0.0", "::"})


class Plans:
    """Makes the commands of services; one that never ran is planned again, with a free port."""

    def __init__(self, settings: Settings, files: HomeFiles, ports: dict[str, int]) -> None:
        self.ports = dict(ports)
        self.endpoints = Endpoints(
            temporal_address=settings.temporal.address or "",
            namespace=settings.namespace,
            home=str(settings.home),
        )
        self.ui = Inside(LOOPBACK, 0)  # the address of the Web UI behind its guard
        self._settings = settings
        self._files = files

    def temporal(self) -> ServiceCommand:
        port = self._port("temporal", "temporal_port")
        self._point(temporal_address=f"{LOOPBACK}:{port}", namespace=service_commands.NAMESPACE)
        codec = None
        if service_commands.wants_codec(self._settings):
            # The Web UI can only be told an address, so the token is the first part of its path.
            codec = f"http://{LOOPBACK}:{self._codec_port}/{codec_token(self._settings)}"
        return service_commands.temporal_launch(
            self._settings, self._files, port=port, ui=self.ui, codec=codec
        )

    def place_ui(self) -> tuple[int, Inside]:
        """The port of the Web UI's guard, and the address for the Web UI behind it."""
        port = self._port("ui", "ui_port")
        self.ui = inside_for(port)
        self._point(ui_url=f"http://{LOOPBACK}:{port}")
        return port, self.ui

    def codec(self) -> ServiceCommand:
        origins = [f"http://{host}:{self.ports['ui']}" for host in (LOOPBACK, "localhost")]
        return service_commands.codec_launch(
            self._settings, self._files, self.endpoints, port=self._codec_port, origins=origins
        )

    @cached_property
    def _codec_port(self) -> int:
        """Chosen once: the Web UI was told it, and a codec server of ours makes it look taken."""
        return self._port("codec", "codec_port")

    def model(self) -> ServiceCommand:
        port = self._port("model", "model_port")
        self._point(model_url=f"http://{LOOPBACK}:{port}")
        return service_commands.model_launch(self._settings, self._files, port=port)

    def api(self) -> ServiceCommand:
        port = self._port("api", "api_port")
        host = self._settings.api_host
        shown = LOOPBACK if host in ANY_ADDRESS else host
        # As URLs have an address of IPv6; without brackets no probe and no browser reads it.
        self._point(api_url=f"http://{f'[{shown}]' if ':' in shown else shown}:{port}")
        return service_commands.api_launch(self._settings, self._files, self.endpoints, port=port)

    def worker(self, name: str) -> Callable[[], ServiceCommand]:
        return lambda: service_commands.worker_launch(
            self._settings, self._files, self.endpoints, name=name
        )

    def _port(self, name: str, field: str) -> int:
        """The port of last time, which runs and browser tabs know, unless a setting names one."""
        wished = int(getattr(self._settings, field))
        known = self.ports.get(name)
        explicit = field in self._settings.model_fields_set
        # Ports of services that are yet to start look free, and would be given away.
        others = frozenset(port for other, port in self.ports.items() if other != name)
        candidates = (wished, known) if explicit else (known, wished)
        self.ports[name] = choose(*candidates, avoid=others)
        return self.ports[name]

    def _point(self, **addresses: str) -> None:
        self.endpoints = self.endpoints.model_copy(update=addresses)
