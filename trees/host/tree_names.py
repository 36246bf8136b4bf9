"""Names that are often tried on a ``Tree``, and what its user is told to write."""

from __future__ import annotations

from typing import Final

MEANT: Final = {
    **dict.fromkeys(("ask", "tell", "send", "call"), "Write tree.ref('PATH').ask(message), or .tell(message)."),
    **dict.fromkeys(("ask_async", "tell_async"), "Write await tree.ref('PATH').ask_async(message)."),
    **dict.fromkeys(("shutdown", "close", "terminate", "join"), "Write tree.stop(), or: with start(TREE) as tree."),
    **dict.fromkeys(("start", "restart"), "It is started already. Write tree.restart_child('PATH') for one child."),
    **dict.fromkeys(("execute", "invoke"), "Write tree.run('the goal')."),
    **dict.fromkeys(("result", "results"), "Write report = tree.run('the goal'), and report.results."),
}
"""Names that are often tried, and what to write."""
