"""Names that are often tried on a ``Tree``, and what its user is told to write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Final, ParamSpec, TypeVar, cast

from actors.tasks.model.task import Task

P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")

MEANT: Final = {
    **dict.fromkeys(("ask", "tell", "send", "call"), "Write tree.ref('PATH').ask(message), or .tell(message)."),
    **dict.fromkeys(("ask_async", "tell_async"), "Write await tree.ref('PATH').ask_async(message)."),
    **dict.fromkeys(("shutdown", "close", "terminate", "join"), "Write tree.stop(), or: with start(TREE) as tree."),
    **dict.fromkeys(("start", "restart"), "It is started already. Write tree.restart_child('PATH') for one child."),
    **dict.fromkeys(("execute", "invoke"), "Write tree.run('the goal')."),
    **dict.fromkeys(("result", "results"), "Write report = tree.run('the goal'), and report.results."),
}
"""Names that are often tried, and what to write."""


def takes_a_task(method: Callable[P, ReturnT]) -> Callable[P, ReturnT]:
    """Decorate a method that takes a task, so that a field of the task given to it says where it belongs."""
    own = frozenset(signature(method).parameters)

    def require_own(given: dict[str, Any]) -> None:
        fields = [name for name in given if name not in own and name in Task.model_fields and name != "goal"]
        if fields:
            named = ", ".join(f"{name}=..." for name in fields)
            write = f"Write tree.{method.__name__}(Task('the goal', {named}))"
            raise TypeError(f"{method.__name__}: {named.removesuffix('=...')} belongs to the task. {write}.")

    if iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            require_own(kwargs)
            return await method(*args, **kwargs)

        return cast("Callable[P, ReturnT]", awaited)

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> ReturnT:
        require_own(kwargs)
        return method(*args, **kwargs)

    return called
