"""The hazards of Pykka 4.5 that concern the process: threads, the registry, fork, and the interpreter's exit."""

import threading
from typing import Any

import pykka
import pytest

from actors import (
    ActorStoppedError,
    ChildExited,
    DeadLetter,
    RecursionDetectedError,
)
from actors.testing import settle
from tests.support.hardening import (
    BOTH,
    LONG_S,
    Gate,
    Ours,
    Stock,
    Witness,
    in_thread,
    python,
    threads_named,
    tree_of,
    worker,
)
from trees import WorkerSpec

TREE = """
class Victim(Worker):
    def on_receive(self, message):
        return message() if callable(message) else message
    def on_stop(self):
        print("on_stop", self.actor_ref.path, flush=True)
spec = SupervisorSpec(id="t", children=[
    WorkerSpec(id="a", actor=Victim, shutdown=60),
    WorkerSpec(id="b", actor=Victim, shutdown=60),
])
"""


@pytest.mark.slow
def test_a_tree_that_nobody_stops_neither_keeps_the_interpreter_nor_loses_its_last_hooks() -> None:
    """Row 12."""
    done = python(TREE + "tree = start(spec)\nprint(tree.ref('t/a').ask('up'))")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["up", "on_stop", "t/b", "on_stop", "t/a"]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["handle=block", "actor=BlockedStock"])
def test_a_blocked_worker_does_not_keep_the_interpreter(target: str) -> None:
    """Row 12."""
    done = python(
        f"""
reached = threading.Event()
def block(_=None):
    reached.set()
    threading.Event().wait()
class BlockedStock(pykka.ThreadingActor):
    def on_receive(self, message): block()
tree = start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", {target}, shutdown=0.1)]))
tree.ref("t/w").tell("block")
reached.wait()
print("end of the program")
"""
    )

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end of the program", "")


@pytest.mark.slow
def test_ctrl_c_in_the_main_thread_ends_the_program_and_the_tree() -> None:
    """Row 12."""
    done = python(TREE + "with start(spec):\n    os.kill(os.getpid(), 2)\n    time.sleep(20)")

    assert done.stdout.split() == ["on_stop", "t/b", "on_stop", "t/a"]
    assert "KeyboardInterrupt" in done.stderr


@BOTH
def test_pykkas_stop_all_inside_an_actor_is_an_error_instead_of_a_deadlock(kind: type[Any]) -> None:
    """Row 17b."""
    with tree_of(worker("w", kind)) as tree:
        with pytest.raises(RecursionDetectedError):
            tree.ref("t/w").ask(lambda _: pykka.ActorRegistry.stop_all())

        assert tree.ref("t/w").ask("alive") == "alive"


class NoThread(threading.Thread):
    """A machine that gives no more threads."""

    refused = 0

    def start(self) -> None:
        NoThread.refused += 1
        raise RuntimeError("can't start new thread")


def test_an_async_worker_whose_loop_cannot_be_started_hurts_no_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 22: on the event loop."""

    async def echo(message: object) -> object:
        return message

    with tree_of(worker("w", echo)) as tree:
        ref = tree.ref("t/w")
        settle(tree)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", NoThread.start)
            ref.tell("no thread for the loop")

        assert ref.ask("later", timeout=LONG_S) == "later"


@pytest.mark.slow
def test_a_machine_without_threads_ends_no_program_in_a_hang() -> None:
    """Row 22: with a real limit of the operating system."""
    done = python(
        """
import resource
stack_bytes = 64 << 20
threading.stack_size(stack_bytes)
class Mine(pykka.ThreadingActor):
    def on_receive(self, message): return message
spec = SupervisorSpec(id="t", children=[WorkerSpec(id="ok", actor=Mine)])
with start(spec) as tree:
    assert tree.ref("t/ok").ask(1) == 1
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * stack_bytes, resource.RLIM_INFINITY))
    failed = 0
    for n in range(20):
        try:
            tree.start_child("t", WorkerSpec(id=f"w{n}", actor=Mine))
        except actors.StartError:
            failed += 1
    assert failed > 5, failed
    assert tree.ref("t/ok").ask(2) == 2
    print("still served")
"""
    )

    assert (done.returncode, done.stdout.strip()) == (0, "still served"), done.stderr


def test_idle_actors_have_no_threads() -> None:
    """Row 24: a thread each costs 22 KiB and 8 MiB of address space."""
    before = threading.active_count()
    with tree_of(worker("w", Ours, pool=3000)) as tree:
        for n in range(0, 3000, 10):
            tree.ref(f"t/w#{n}").ask("busy once")

        assert threading.active_count() - before < 20


@pytest.mark.slow
def test_in_the_child_of_a_fork_a_tree_is_down_instead_of_half_alive() -> None:
    """Row 35."""
    done = python(
        'import warnings\nwarnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)\n'
        + TREE
        + """
with start(spec) as tree:
    ref = tree.ref("t/a")
    pid = os.fork()
    if not pid:
        try:
            ref.ask("anybody?")
        except actors.ActorStoppedError as error:
            print(type(error).__name__, flush=True)
        ref.tell("dead letter")
        pykka.ActorRegistry.stop_all()
        print(pykka.ActorRegistry.get_all(), tree.is_alive, tree.wait(1), tree.stop(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print(ref.ask("the parent goes on"))
"""
    )

    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == ["TreeDownError", "[] False True True", "the parent goes on"]


@pytest.mark.slow
def test_a_fork_in_the_middle_of_traffic_leaves_no_lock_behind_in_the_child() -> None:
    """Row 35: locks that other threads held at the fork are held for ever in the child."""
    done = python(
        TREE
        + """
sys.setswitchinterval(1e-6)
with start(spec) as tree:
    refs, enough = [tree.ref("t/a"), tree.ref("t/b")], threading.Event()
    def load(ref):
        while not enough.is_set():
            ref.tell("m")
    threads = [threading.Thread(target=load, args=(ref,)) for ref in refs]
    for thread in threads: thread.start()
    for _ in range(15):
        pid = os.fork()
        if not pid:
            for ref in refs:
                ref.tell("dead letter")
            tree.stop()
            os._exit(0)
        for _ in range(400):
            if os.waitpid(pid, os.WNOHANG)[0]:
                break
            time.sleep(0.02)
        else:
            os.kill(pid, 9)
            print("hung")
    enough.set()
    for thread in threads: thread.join()
os._exit(0)
"""
    )

    assert "hung" not in done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_lock_that_another_thread_held_at_a_fork_is_free_in_the_child() -> None:
    """Row 35: that of a pool, which its members share."""
    done = python(
        TREE
        + """
def work(message):
    if message == "hello":
        return message
    has, enough = threading.Event(), threading.Event()
    def hold():
        with tree.ref('t/p')._box.lock:
            has.set()
            enough.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    has.wait()
    pid = os.fork()
    if not pid:
        pool = tree.ref("t/p")
        pool.tell("dead letter")
        for ref in (pool, tree.ref("t/p#1")):
            try:
                ref.ask("anybody?")
            except actors.ActorStoppedError as error:
                print(type(error).__name__, flush=True)
        os._exit(0)
    for _ in range(500):
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(0.02)
    else:
        os.kill(pid, 9)
        print("hung", flush=True)
    enough.set()
children = [WorkerSpec(id="p", handle=work, pool=2), WorkerSpec(id="w", handle=work)]
with start(SupervisorSpec(id="t", children=children)) as tree:
    tree.ref("t/w").ask("fork", timeout=60)
    print(tree.ref("t/p").ask("hello"))
"""
    )

    assert done.stdout.splitlines() == ["TreeDownError", "TreeDownError", "hello"], done.stderr


def test_every_thread_says_in_its_name_whose_it_is() -> None:
    """Row 40."""
    gate = Gate()

    def body() -> None:
        gate()

    with tree_of(WorkerSpec(id="body", run=body), worker("stock", Stock), worker("w")) as tree:
        gate.wait_reached()
        inner = tree.ref("t/w").ask(lambda: threading.current_thread().name)
        own = tree.ref("t/stock").ask(lambda _: threading.current_thread().name)
        ours = threads_named("t/body-")
        gate.open.set()
        ours[0].join(LONG_S)

        assert inner.startswith("t-")
        assert own.startswith("t/stock-")
        assert not ours[0].is_alive()


@pytest.mark.slow
def test_it_works_without_asserts() -> None:
    """Smaller: Pykka guards ``super().__init__()`` with an assert, which -O removes."""
    done = python(
        """
import subprocess
code = '''
from loguru import logger; logger.remove()
from actors import Worker
from trees import SupervisorSpec, WorkerSpec, start
class W(Worker):
    def __init__(self): self.n = 7
    def on_receive(self, message): return 1 // message
with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", actor=W)])) as tree:
    try: tree.ref("t/w").ask(0)
    except ZeroDivisionError: print(tree.ref("t/w").ask(1), tree.ref("t/w").proxy().n.get())
'''
subprocess.run([sys.executable, "-O", "-c", code], check=True)
"""
    )

    assert (done.returncode, done.stdout.strip()) == (0, "1 7"), done.stderr


def test_a_stopped_tree_answers_its_callers_with_the_reason() -> None:
    """Smaller: after somebody's stop_all a caller is told that the tree is down; nothing hangs, nothing is silent."""
    with tree_of(worker("w")) as tree:
        seen, ref = Witness(tree), tree.ref("t/w")
        pykka.ActorRegistry.stop_all()
        tree.wait(LONG_S)
        exits = seen.of(ChildExited)
        with pytest.raises(ActorStoppedError) as caught:
            ref.ask("anybody?")

        assert "its tree is down" in str(caught.value)
        assert [event.path for event in exits] == ["t/w"]
        assert in_thread(tree.stop)() is True
        assert not seen.of(DeadLetter)
