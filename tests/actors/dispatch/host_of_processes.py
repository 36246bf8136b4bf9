"""Host that starts processes, says which, and waits to be killed: a program, run with ``python -m``.

Each argument is a way to start one: ``guarded`` leads a group that the guardian knows; ``marked`` has nothing but the
mark; ``apart`` is started by a guarded one, in a session of its own; ``below`` by a guarded one, in its group.
"""

import os
import subprocess
import sys
import time

from actors.dispatch.groups.process_group import GROUPS, guard

_SLEEPS = "import time; time.sleep(600)"
_STARTS = (
    "import subprocess, sys, time; "
    f"print(subprocess.Popen([sys.executable, '-c', {_SLEEPS!r}], start_new_session=bool({{apart}})).pid, flush=True); "
    "time.sleep(600)"
)


def start(how: str) -> list[int]:
    """Start one and what belongs to it; their process ids."""
    program = _SLEEPS if how in {"guarded", "marked"} else _STARTS.format(apart=int(how == "apart"))
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=GROUPS.marked(os.environ),
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    if how != "marked":
        guard(process.pid)
    assert process.stdout is not None
    below = [int(process.stdout.readline())] if how in {"apart", "below"} else []
    return [process.pid, *below]


if __name__ == "__main__":
    started = [pid for how in sys.argv[1:] for pid in start(how)]
    print(GROUPS._guardian, *started, flush=True)
    time.sleep(600)
