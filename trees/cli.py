"""The entry of the command ``regrow``: looks whether what it needs is there, then hands over to ``trees.command``.

The library itself needs neither typer nor rich, so nothing else in it imports them.
"""

from __future__ import annotations

import importlib.util
import sys

from trees.agents.packages import install

NEEDS = ("typer", "rich")


def main() -> None:
    """Run the command line of this process; ends it with an exit code (see ``trees.command.app``)."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"regrow: the command line needs {' and '.join(missing)}, not installed here. {install('cli')}\n"
        )
        raise SystemExit(2)
    from trees.command.app import app, with_port  # noqa: PLC0415 - only where its dependencies are installed

    app(with_port(sys.argv[1:]), prog_name="regrow")
