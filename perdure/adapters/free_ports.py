"""Free ports: the wished one, else the one remembered, else any."""

import socket

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a service could listen on the port now (both loopback families)."""
    return _binds(socket.AF_INET, LOOPBACK, port) and _binds(socket.AF_INET6, "::1", port)


def choose(*candidates: int | None, avoid: frozenset[int] = frozenset()) -> int:
    """The first free candidate, else a free port that the system picks."""
    for port in candidates:
        if port is not None and port not in avoid and is_free(port):
            return port
    while (port := _any()) in avoid:
        pass
    return port


def _binds(family: socket.AddressFamily, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            # A host without IPv6 cannot be blocked there.
            return family == socket.AF_INET6 and error.errno in _NO_FAMILY
    return True


def _any() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


_NO_FAMILY = frozenset({97, 99})  # EAFNOSUPPORT, EADDRNOTAVAIL
