"""The console of a running tree: a unix socket through which its owner, and nobody else, looks at it and operates it.

``server`` is the side of the tree (``start(..., console=True)``), ``client`` the other side: ``regrow dump``, ``top``
and ``observe`` use it. ``protocol`` is what they say to each other, and where the sockets are.
"""

from trees.host.console.client import ConsoleSource, ask
from trees.host.console.protocol import ConsoleError, ConsoleGoneError, ConsoleRequest, find
from trees.host.console.server import Console

__all__ = [
    "Console",
    "ConsoleError",
    "ConsoleGoneError",
    "ConsoleRequest",
    "ConsoleSource",
    "ask",
    "find",
]
