"""Ports for tests that need a number before they listen on it, or listen on it again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST_OF_KERNEL = int(KERNELS.read_text().split()[0]) if KERNELS.exists() else 32768
"""From here on the kernel takes ports itself, for port 0 and for the near end of each connection."""


def free_port() -> int:
    """A port that nobody uses now, and that the kernel gives nobody later.

    A port that was bound as 0 and closed is one of the kernel's: the next connection of any test that runs beside this
    one may take it before it is bound again.
    """
    while True:
        port = random.SystemRandom().randrange(max(1024, FIRST_OF_KERNEL - 10_000), FIRST_OF_KERNEL)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # somebody has it
            return port
