"""``tree.map(..., key=...)``: the key makes the id of an item's task, so what is done is never done again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trees import SupervisorSpec, Task, TaskError, TaskFailedError, Tasks, WorkerSpec, start, start_async

WAIT_S = 60.0
PROGRAM = """
import os, sys, time
from trees import SupervisorSpec, Tasks, WorkerSpec, start

def read(task, context):
    with open("done.txt", "a") as file:
        file.write(f"{context.inputs['item']}\\n")
    time.sleep(0.005)
    return f"read {task}"

TREE = SupervisorSpec(id="batch", tasks=Tasks(on_failure=[], max_parallel=2), children=[
    WorkerSpec(id="reader", execute=read, pool=2),
])

if __name__ == "__main__":
    with start(TREE, store="sqlite:///batch.db") as tree:
        found = {}
        for item, result in tree.map(range(100), to="reader", key=lambda item: f"row {item}"):
            found[item] = result
            if len(found) == 40 and "die" in sys.argv:
                os._exit(9)
    assert found == {n: f"read {n}" for n in range(100)}, found
"""


class Reads:
    """What a worker was given."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __call__(self, task: Any, context: Any) -> str:
        item = context.inputs.get("item", str(task))
        self.items.append(item)
        if item == "bad":
            raise ValueError(item)
        return f"read {item}"


def spec_of(reads: Reads, *others: WorkerSpec) -> SupervisorSpec:
    return SupervisorSpec(
        id="s",
        tasks=Tasks(on_failure=[]),
        children=[WorkerSpec(id="reader", execute=reads), *others],
    )


def test_a_program_that_was_killed_does_nothing_twice_that_was_done(tmp_path: Path) -> None:
    (tmp_path / "batch.py").write_text(PROGRAM, encoding="utf-8")
    killed = subprocess.run([sys.executable, "batch.py", "die"], cwd=tmp_path, timeout=WAIT_S, check=False)
    at_kill = (tmp_path / "done.txt").read_text(encoding="utf-8").split()
    again = subprocess.run([sys.executable, "batch.py"], cwd=tmp_path, timeout=WAIT_S, check=False)
    done = Counter((tmp_path / "done.txt").read_text(encoding="utf-8").split())
    assert (killed.returncode, again.returncode) == (9, 0)
    assert set(done) == {str(n) for n in range(100)}
    # Only what ran when the program was killed, two at a time, has no result yet and begins again.
    twice = [item for item, times in done.items() if times > 1]
    assert len(twice) <= 2
    assert set(twice) <= set(at_kill[-4:])


def test_what_has_ended_is_read_from_the_store_by_the_next_program_errors_too(tmp_path: Path) -> None:
    store, items = f"sqlite:///{tmp_path}/tasks.db", ["a", "bad", "b"]
    first, second = Reads(), Reads()
    with start(spec_of(first), store=store) as tree:
        dict(tree.map(items, to="reader", key=str))
        assert tree.task("a").status == "succeeded"
    with start(spec_of(second), store=store) as tree:
        found = dict(tree.map([*items, "c"], to="reader", key=str))
    assert sorted(first.items) == ["a", "b", "bad"]
    assert second.items == ["c"]
    assert (found["a"], found["b"], found["c"]) == ("read a", "read b", "read c")
    assert isinstance(found["bad"], TaskFailedError)


def test_equal_keys_in_one_call_are_one_task_and_each_item_is_yielded() -> None:
    reads = Reads()
    with start(spec_of(reads)) as tree:
        found = list(tree.map(["a", "A", "b", "a"], to="reader", key=str.lower))
    assert sorted(item for item, _ in found) == ["A", "a", "a", "b"]
    assert {result for item, result in found if item != "b"} in ({"read a"}, {"read A"})
    assert len(reads.items) == 2


def test_tasks_dicts_and_async_items_have_keys_as_well() -> None:
    reads = Reads()

    async def rows() -> Any:
        for number in (1, 2, 1):
            yield {"id": number, "item": f"row {number}"}

    async def main() -> list[Any]:
        async with start_async(spec_of(reads)) as tree:
            found = [result async for _, result in tree.map(rows(), to="reader", key=lambda row: str(row["id"]))]
            tasks = [Task("read it", inputs={"item": name}) for name in ("x", "x")]
            return found + [
                result async for _, result in tree.map(tasks, to="reader", key=lambda task: task.inputs["item"])
            ]

    assert sorted(asyncio.run(main())) == ["read row 1", "read row 1", "read row 2", "read x", "read x"]
    assert len(reads.items) == 3


def test_a_key_of_another_step_is_an_error_and_not_the_result_of_that_step() -> None:
    reads, others = Reads(), Reads()
    with start(spec_of(reads, WorkerSpec(id="other", execute=others))) as tree:
        assert dict(tree.map(["a"], to="reader", key=str)) == {"a": "read a"}
        found = dict(tree.map(["a"], to="other", key=str))
        assert isinstance(found["a"], TaskError)
        assert "'a' was given to reader" in str(found["a"])
        assert dict(tree.map(["a"], to="other", key="other-{}".format)) == {"a": "read a"}
    assert (reads.items, others.items) == (["a"], ["a"])


def test_what_was_given_goes_on_when_the_loop_is_left_and_is_there_the_next_time() -> None:
    reads = Reads()
    with start(spec_of(reads)) as tree:
        for _ in tree.map(range(50), to="reader", key=str):
            break
        found = dict(tree.map(range(50), to="reader", key=str))
    assert found == {n: f"read {n}" for n in range(50)}
    assert Counter(reads.items) == Counter(range(50))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (lambda item: item["id"], "expected a text, got 7"),
        (lambda _: "", "expected a text, got ''"),
        (lambda _: None, "expected a text, got None"),
    ],
)
def test_a_key_that_is_no_text_ends_the_batch_with_an_error_that_says_so(key: Any, words: str) -> None:
    with start(spec_of(Reads())) as tree, pytest.raises((TypeError, ValueError), match=words):
        dict(tree.map([{"id": 7}], to="reader", key=key))


def test_a_key_that_is_no_function_and_one_for_messages_are_refused_at_once() -> None:
    with start(spec_of(Reads(), WorkerSpec(id="length", handle=len))) as tree:
        with pytest.raises(TypeError, match="Give a function of an item"):
            tree.map(["a"], to="reader", key="id")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="takes messages"):
            tree.map(["a"], to="s/length", key=str)
