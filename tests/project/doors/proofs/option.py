"""A program is told its label, which stands in its declaration."""

from __future__ import annotations

import sys
from queue import SimpleQueue

from trees import Command, SupervisorSpec, WorkerSpec, start

lines: SimpleQueue[str] = SimpleQueue()
argv = [sys.executable, "-c", "import os; print(os.environ['LABEL'])"]
command = Command(argv, label="blue", on_line=lines.put)  # type: ignore[call-arg]
spec = SupervisorSpec(id="p", children=[WorkerSpec(id="w", command=command, restart="temporary")])
with start(spec):
    assert lines.get(timeout=60) == "blue"
print("works")
