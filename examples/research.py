"""Agents of two frameworks, an MCP server and a team study a folder of text; parts are killed, the report is the same.

    pip install '.[pydantic-ai,langchain,mcp]'
    python examples/research.py                          the documentation of the packages that are installed here
    python examples/research.py --input path=DIR         another folder of text
    python examples/research.py --web                    shows it in a browser while it runs (extra "web")
    python examples/research.py --input kill=mcp         its MCP server is killed in the middle of a call
    python examples/research.py --input kill=agent       an agent crashes its worker
    python examples/research.py --input kill=model       the model fails (``model=local``: its process is killed)
    python examples/research.py --input model=local      a real small model, served by examples/local_model.py
    python examples/research.py --input model=openai:gpt-5-mini    any model that pydantic-ai knows, by its name

The planner is a model, too: it makes the graph. ``survey`` and ``licences`` are agents of pydantic-ai whose tools are
those of the MCP server ``files``, a worker of the tree (program: ``documents_server.py``); ``measure`` is a graph of
LangGraph; ``editors`` is a team; ``summary`` is an agent that is told what all of them have found. A reviewer looks at
the results.

With ``model=test``, the default, the model is a function of what it is told: no key, no network, the same report every
time. So the reports of two runs can be compared, one of them with ``kill=``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import documents_server
from langgraph.graph import END, START, StateGraph
from loguru import logger
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actors import Context
from trees import (
    Check,
    Command,
    ModelPlanner,
    ModelReviewer,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskStreamed,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tasks,
    Verdict,
    WorkerSpec,
    start,
)
from trees.agents import MCP, LangChain, PydanticAI, toolset

GOAL = "What is installed here, under which licences, and how well is it documented?"
READ = 6
"""Documents that an agent reads."""
FEW_TOKENS = 60
"""Tokens of an answer of the local model: a small one repeats itself for ever."""
KINDS = ("", "mcp", "agent", "model")


# -- the model of model=test: a function of what it is told ------------------------------------------------


class Once:
    """True the first time that it is asked, in whatever thread."""

    def __init__(self, wanted: bool) -> None:
        self._left = [None] if wanted else []
        self._lock = threading.Lock()

    def __call__(self) -> bool:
        """Tell whether this is the first time."""
        with self._lock:
            return bool(self._left) and self._left.pop() is None


def reading(question: str, pick: Callable[[str], str], crashes: Once, fails: Once) -> FunctionModel:
    """Return a model that lists the documents, reads some, and answers with a line for each.

    Args:
        question: what its answer begins with.
        pick: finds in a text what is looked for.
        crashes: whether this request is to crash the worker.
        fails: whether this request is to fail, as one of a provider that is overloaded.
    """

    def ask(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        results = [part for each in messages for part in each.parts if isinstance(part, ToolReturnPart)]
        if not results:
            return ModelResponse([ToolCallPart("list_documents", {})])
        if len(results) == 1:
            if fails():
                raise ModelHTTPError(503, "test")
            names = _names(results[0].content)[:READ]
            return ModelResponse([ToolCallPart("read_document", {"name": name}) for name in names])
        if crashes():
            raise SystemExit
        lines = [f"* {name}: {pick(str(part.content))}" for name, part in _read(messages, results[1:])]
        return ModelResponse([TextPart("\n".join([question, *sorted(lines)]))])

    return FunctionModel(ask, model_name=question)


def _names(content: Any) -> list[str]:
    found = content if isinstance(content, list) else json.loads(content)
    return [str(each) for each in found]


def _read(messages: list[ModelMessage], results: list[ToolReturnPart]) -> Iterator[tuple[str, ToolReturnPart]]:
    calls = {part.tool_call_id: part for each in messages for part in each.parts if isinstance(part, ToolCallPart)}
    for part in results:
        yield str(calls[part.tool_call_id].args_as_dict().get("name")), part


def telling(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer with the first line of every result that the prompt has."""
    prompt = str(getattr(messages[-1].parts[-1], "content", ""))
    found = re.findall(r"^## (\w+)\n\n(.+)$", prompt, re.MULTILINE)
    return ModelResponse([TextPart("\n".join(f"{id_}: {line}" for id_, line in found) or prompt[:100])])


def _licence(text: str) -> str:
    found = re.search(r"^License(?:-Expression)?: *(.+)$", text, re.MULTILINE)
    return found[1][:60] if found else "no licence named"


def _title(text: str) -> str:
    found = re.search(r"^Summary: *(.+)$", text, re.MULTILINE)
    return (found[1] if found else text.strip().partition("\n")[0])[:60]


# -- the tree ----------------------------------------------------------------------------------------------


class Measures(TypedDict):
    """State of the graph that measures."""

    path: str
    sizes: dict[str, int]
    told: str


def measure() -> Any:
    """Return a graph of LangGraph: it counts the words of every document, and says what that means."""
    graph = StateGraph(Measures)
    graph.add_node(
        "count",
        lambda state: {"sizes": {n: len(t.split()) for n, t in documents_server.documents(state["path"]).items()}},
    )
    graph.add_node("tell", lambda state: {"told": _told(state["sizes"])})
    graph.add_edge(START, "count")
    graph.add_edge("count", "tell")
    graph.add_edge("tell", END)
    return graph.compile()


def _sizes(path: str) -> dict[str, int]:
    return {name: len(text.split()) for name, text in documents_server.documents(path).items()}


def _told(sizes: dict[str, int]) -> str:
    short = sorted(name for name, words in sizes.items() if words < 200)  # noqa: PLR2004
    return f"{len(sizes)} documents, {sum(sizes.values()):,} words; short: {', '.join(short[:5]) or 'none'}"


def style(task: Subtask, context: Context) -> dict[str, Any]:  # noqa: ARG001 - every execute has both
    """Look at the form of what was found."""
    return {id_: len(str(found).splitlines()) for id_, found in context.results.items()}


def gaps(task: Subtask, context: Context) -> list[str]:  # noqa: ARG001
    """Look for what is missing in what was found."""
    return sorted({line for found in context.results.values() for line in str(found).splitlines() if "no " in line})


PLAN = [
    Subtask("survey", "List what is installed, each with a line about it", worker="survey"),
    Subtask("licences", "Find the licence of each", worker="licences"),
    Subtask("measure", "Measure the documents", worker="measure"),
    Subtask("editors", "check style and gaps", worker="editors", depends_on=["survey", "licences"]),
    Subtask(
        "summary", "Sum up what was found", worker="summary", depends_on=["survey", "licences", "measure", "editors"]
    ),
]


NOTHING_THERE = f"no folder with texts in it ({', '.join(sorted(documents_server.SUFFIXES))})"


def tree(path: str = "", model: str = "test", kill: str = "", port: int = 8091) -> SupervisorSpec:
    """Declare the tree.

    Args:
        path: folder of text; empty: what the installed packages say about themselves.
        model: ``test``, ``local``, or a name that pydantic-ai knows.
        kill: part that breaks in the run: ``mcp``, ``agent``, ``model``, or none.
        port: of the server of the local model, on loopback.

    Raises:
        ValueError: nothing can be read there.
    """
    if path and not documents_server.documents(path):
        raise ValueError(f"path={path}: {NOTHING_THERE}")
    mark = str(Path(tempfile.mkdtemp(prefix="research-")) / "died") if kill == "mcp" else ""
    test, local = model == "test", model == "local"
    crashes, fails, never = Once(test and kill == "agent"), Once(test and kill == "model"), Once(wanted=False)
    real: Any = _local(port) if local else model
    models: dict[str, Any] = {"survey": real, "licences": real, "summary": real}
    short: Any = {"max_tokens": FEW_TOKENS} if local else None
    if test:
        models["survey"] = reading("Installed:", _title, crashes, fails)
        models["licences"] = reading("Licences:", _licence, never, never)
        models["summary"] = FunctionModel(telling, model_name="summary")
    readers = [
        WorkerSpec(
            id=name,
            execute=PydanticAI(
                Agent(
                    models[name],
                    name=name,
                    model_settings=short,
                    deps_type=Context,
                    toolsets=[] if local else [lambda run: toolset(run.deps, "files").pydantic_ai()],
                ),
                deps=lambda context: context,
            ),
            description=says,
        )
        for name, says in {"survey": "lists what is installed", "licences": "finds licences"}.items()
    ]
    own = [_server(port)] if local else []
    return SupervisorSpec(
        id="research",
        tasks=Tasks(
            planner=ModelPlanner(real, slots=2) if local else StaticPlan(PLAN) if test else ModelPlanner(real),
            reviewer=None if local else _review if test else ModelReviewer(real, criteria=["It names its documents."]),
            on_failure=[Retry(max_attempts=6, initial_s=0.2)],
        ),
        max_restarts=10,
        children=[
            *own,
            WorkerSpec(id="files", execute=MCP(command=_command(path, mark)), start_timeout_s=60.0),
            *readers,
            WorkerSpec(
                id="measure",
                execute=LangChain(
                    measure(),
                    input=lambda *_: {"path": path},
                    output=lambda state: state["told"],
                ),
                description="measures documents",
            ),
            SupervisorSpec(
                id="editors",
                tasks=Tasks(planner=StaticPlan([Subtask("style", "look at the form"), Subtask("gaps", "find gaps")])),
                children=[WorkerSpec(id="style", execute=style), WorkerSpec(id="gaps", execute=gaps)],
            ),
            WorkerSpec(
                id="summary",
                execute=Agent(models["summary"], name="summary", model_settings=short),
                description="sums up",
            ),
        ],
    )


def _command(path: str, mark: str) -> list[str]:
    return [sys.executable, documents_server.__file__, path, "--dies-once", mark]


def _server(port: int) -> WorkerSpec:
    program = str(Path(__file__).with_name("local_model.py"))
    return WorkerSpec(
        id="model",
        command=Command([sys.executable, program, "--port", str(port)], ready=r"^ready "),
        start_timeout_s=60.0,
    )


def _local(port: int) -> Any:
    sys.path.insert(0, str(Path(__file__).parent))
    from local_model import missing, model_at  # noqa: PLC0415 - only with model=local

    if missing():
        raise SystemExit(missing())
    return model_at(f"http://127.0.0.1:{port}/v1")


def _review(task: Task, plan: Any, results: dict[str, Any]) -> Any:  # noqa: ARG001
    checks = [Check(id_, bool(found), "" if found else "nothing was found") for id_, found in results.items()]
    return Verdict(all(check.passed for check in checks), checks)


# -- the run -----------------------------------------------------------------------------------------------


def research(inputs: dict[str, str], web: int | None = None) -> Report:
    """Run it, tell what the agents say meanwhile, and show the report; in a browser, too, at the port ``web``."""
    spec = tree(inputs.get("path", ""), inputs.get("model", "test"), inputs.get("kill", ""))
    with start(spec) as running:
        if web is not None:
            print(f"open {running.serve(web, content=True).url}\n", flush=True)
        if inputs.get("kill") == "model" and inputs.get("model") == "local":
            pid = running.child("research/model").pid
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        handle = running.submit(Task(GOAL))
        tell(handle)
        report = handle.result()
        show(report)
        print(running.dump())
        if web is not None:
            print("\nThe page stays until Enter.", flush=True)
            sys.stdin.readline()
    return report


def tell(handle: TaskHandle) -> None:
    """Print what the agents say as they say it, up to the end; a name says who begins to speak."""
    speaker = ""
    for event in handle.events():
        if isinstance(event, SubtaskStreamed) and event.kind == "text":
            if event.subtask != speaker:
                speaker = event.subtask
                print(f"\n[{speaker}] ", end="")
            print(event.text, end="", flush=True)


def show(report: Report) -> None:
    """Print what was found, and what each role and each worker has used."""
    print(f"\n\n{report.status}: {GOAL}\n")
    for id_, found in report.results.items():
        text = found if isinstance(found, str) else json.dumps(found)
        print(f"{id_}\n    " + "\n    ".join(text.splitlines()[:8]))
    print("\nused, by role:")
    for role, usage in report.usage_by_role.items():
        print(f"    {role:12} {usage.tokens:6} tokens")
    print("by agent:")
    used: dict[str, int] = {}
    for part in report.graph:
        used[part.worker or part.id] = used.get(part.worker or part.id, 0) + part.usage.tokens
    for worker, tokens in used.items():
        if tokens:
            print(f"    {worker:12} {tokens:6} tokens")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", action="append", default=[], metavar="KEY=VALUE", help="path=, model=, kill=")
    parser.add_argument("--web", nargs="?", type=int, const=8420, metavar="PORT", help="show it in a browser")
    args = parser.parse_args()
    inputs = dict(each.partition("=")[::2] for each in args.input)
    strange = set(inputs) - {"path", "model", "kill"}
    if strange or inputs.get("kill", "") not in KINDS:
        parser.error(f"--input takes path=DIR, model=NAME and kill={'|'.join(KINDS[1:])}")
    path = inputs.get("path", "")
    if path and not documents_server.documents(path):
        parser.error(f"--input path={path}: {NOTHING_THERE}")
    logger.remove()
    logger.add(sys.stderr, level="WARNING", format="{message}")
    return 0 if research(inputs, args.web).status == "succeeded" else 1


if __name__ == "__main__":
    sys.exit(main())
