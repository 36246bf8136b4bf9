"""Nothing of a tree keeps the interpreter from ending, whatever still runs while it ends."""

import pytest

from tests.support.hardening import python

STUBBORN = """
import asyncio
from loguru import logger
from trees import SupervisorSpec, WorkerSpec, start

logger.remove()
begun = __import__("threading").Event()

async def stubborn(message):
    begun.set()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

with start(SupervisorSpec(id="r", children=[WorkerSpec(id="s", handle=stubborn, shutdown=0.1)])) as tree:
    tree.ref("r/s").tell(1)
    begun.wait()
print("left")
"""
FINALIZERS = """
from loguru import logger
from trees import SupervisorSpec, WorkerSpec, start

logger.remove()

class Tells:
    def __init__(self, refs):
        self.refs = refs
        self.me = self

    def __del__(self):
        for ref in self.refs:
            ref.tell("the interpreter ends")

def body(message):
    return message

async def on_loop(message):
    return message

children = [
    WorkerSpec(id="p", handle=body),
    WorkerSpec(id="l", handle=on_loop),
    WorkerSpec(id="t", handle=body, dispatch="thread"),
]
trees = [start(SupervisorSpec(id=f"r{n}", children=children)) for n in range(2)]
KEPT = Tells([tree.ref(f"{tree.spec.id}/{id}") for tree in trees for id in ("p", "l", "t")])
trees[0].stop()
print("left")
"""
STOPS = """
import atexit
from loguru import logger
from tests.support.hardening import obey, tree_of, worker

logger.remove()

def late():
    global kept, tree
    kept = tree_of(worker("w", obey))
    try:
        tree = kept.__enter__()
    except Exception:  # 3.12 gives no thread any more
        return
    assert tree.ref("t/w").ask("a") == "a"

atexit.register(late)  # what the library registers now is not called any more: the with statement is left by the end
print("left")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [STUBBORN, FINALIZERS, STOPS],
    ids=["a coroutine that is destroyed", "finalizers that tell", "a finalizer that stops a tree"],
)
def test_what_runs_while_the_interpreter_ends_does_not_keep_it(code: str) -> None:
    done = python(code, timeout_s=60.0)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "left"
