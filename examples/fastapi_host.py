"""A web app that has tasks done by a tree: started in its lifespan, submitted, watched and answered over HTTP.

    python examples/fastapi_host.py              a request to each address, in this process, and what came back
    python examples/fastapi_host.py --serve      http://127.0.0.1:8000/docs

The tree lives as long as the app. A task is in the journal when ``POST /tasks`` returns; nothing of it runs in a
request, so a client that goes away ends nothing. ``GET /tasks/{id}/events`` tells all that has happened and happens, up
to the end; a client that comes back says with ``Last-Event-ID`` what it has seen. If that is all it gets a 204, which
tells the ``EventSource`` of a browser not to come again. Ctrl-C stops the tree first, which ends these streams: the
server waits for its connections before it lets the app end. If the root gives up, the server ends too, so that the
program that runs it (systemd, Docker) starts it again; ``GET /health`` is 503 meanwhile.

Needs the extra "example" (for fastapi, httpx and uvicorn).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Annotated, Any, Literal

import httpx
import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from loguru import logger
from pydantic import BaseModel, Field

from trees import (
    Approve,
    Context,
    Edit,
    Escalate,
    Escalated,
    EscalationError,
    Event,
    Reject,
    Respond,
    Subtask,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tasks,
    Tree,
    TreeStopped,
    UnknownTaskError,
    WorkerSpec,
    start_async,
)

# -- the tree ----------------------------------------------------------------------------------------------------

ENOUGH = 5
"""Words; a shorter text is published only if somebody says so."""


async def count(task: Subtask, context: Context) -> int:  # noqa: ARG001 - every execute has both
    """How many words the text has."""
    return len(words(context))


async def topics(task: Subtask, context: Context) -> list[str]:  # noqa: ARG001
    """What it is about."""
    return [word for word, _ in Counter(word for word in words(context) if len(word) > 3).most_common(3)]  # noqa: PLR2004


async def publish(task: Subtask, context: Context) -> str:  # noqa: ARG001
    """Publish it under its topics; whether a short one is good enough a person has to say."""
    if context.results["count"] < ENOUGH and context.answer is None:
        raise Escalated(f"It has only {context.results['count']} words. Publish it?", state="asked")
    return f"published under {context.feedback or ', '.join(context.results['topics'])}"


def words(context: Context) -> list[str]:
    """The words of the task's text."""
    return re.findall(r"\w+", context.inputs["text"].casefold())


TREE = SupervisorSpec(
    id="desk",
    tasks=Tasks(max_parallel=100),
    children=[
        WorkerSpec(id="count", execute=count, pool=4, description="Counts words"),
        WorkerSpec(id="topics", execute=topics, pool=4, description="Finds what a text is about"),
        WorkerSpec(id="publish", execute=publish, on_failure=[Escalate(timeout_s=86_400.0)], pool=4),
    ],
)
GOAL = "count the words and find the topics, then publish it"

# -- the app -----------------------------------------------------------------------------------------------------


class NewTask(BaseModel):
    """What is to be published."""

    text: Annotated[str, Field(max_length=100_000)]
    priority: int = 0


class Said(BaseModel):
    """What a person answers."""

    answer: Literal["approve", "edit", "respond", "reject"]
    text: str = ""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The tree starts with the app and stops with it, in order."""
    async with start_async(TREE) as tree:
        app.state.tree = tree
        tree.subscribe(end_with_the_tree)
        with stopped_first(tree):
            yield


def end_with_the_tree(event: Event) -> None:
    """End the server if the root gave up: an app without its tree would answer every request with an error."""
    if isinstance(event, TreeStopped) and event.gave_up:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def stopped_first(tree: Tree) -> Iterator[None]:
    """Stop the tree as soon as a signal tells the server to end, and then tell the server."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the business of another thread
        return
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def stop(signum: int, frame: FrameType | None) -> None:
        threading.Thread(target=tree.stop, daemon=True).start()
        handler = before[signal.Signals(signum)]
        if callable(handler):
            handler(signum, frame)

    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


app = FastAPI(title="Tasks on a tree", lifespan=lifespan)


def the_tree(request: Request) -> Tree:
    """The running tree."""
    tree: Tree = request.app.state.tree
    return tree


def the_task(id: str, tree: Annotated[Tree, Depends(the_tree)]) -> TaskHandle:
    """The task of this id; 404 where there is none."""
    try:
        return tree.task(id)
    except UnknownTaskError as error:
        raise HTTPException(404, str(error)) from error


@app.get("/health")
def health(tree: Annotated[Tree, Depends(the_tree)]) -> dict[str, bool]:
    """503 while the tree cannot do its work. On a thread, because it waits for each supervisor, 1 s at most."""
    found = tree.health()
    if not found.ready:
        raise HTTPException(503, str(found.problems))
    return {"ready": True}


@app.post("/tasks", status_code=202)
async def submit(new: NewTask, tree: Annotated[Tree, Depends(the_tree)]) -> dict[str, str]:
    """Have a text published; returns as soon as that is on record."""
    handle = await tree.asubmit(Task(GOAL, inputs={"text": new.text}, priority=new.priority))
    return {"id": handle.id, "status": handle.status}


@app.get("/tasks/{id}")
async def look(handle: Annotated[TaskHandle, Depends(the_task)]) -> dict[str, Any]:
    """Where it stands: its results once it has ended, and the questions that are open."""
    report = handle.report
    ended = {"results": report.results, "failed": report.failed} if report else {}
    questions = [{"id": each.id, "question": each.question} for each in handle.escalations]
    return {"id": handle.id, "status": handle.status, "escalations": questions, **ended}


@app.get("/tasks/{id}/graph", response_class=PlainTextResponse)
async def graph(handle: Annotated[TaskHandle, Depends(the_task)]) -> str:
    """The graph of the run, as mermaid."""
    return handle.dump("mermaid")


@app.get("/tasks/{id}/events")
async def events(
    handle: Annotated[TaskHandle, Depends(the_task)], last_event_id: Annotated[int | None, Header(ge=0)] = None
) -> Response:
    """Server-sent events: what has happened, what happens, up to the end. No goal, result or prompt is in them.

    204 for a client that has seen the end: after an empty 200 a browser would come back for ever.
    """
    if handle.report is not None and await anext(handle.events(after=last_event_id), None) is None:
        return Response(status_code=204)

    async def stream() -> AsyncIterator[str]:
        async for event in handle.events(after=last_event_id):
            yield f"id: {event.seq}\nevent: {type(event).__name__}\ndata: {json.dumps(event.as_dict())}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.post("/escalations/{id}")
async def respond(id: str, said: Said, tree: Annotated[Tree, Depends(the_tree)]) -> dict[str, str]:
    """Answer a question; 409 where it is not open any more."""
    answers: dict[str, Approve | Edit | Respond | Reject] = {
        "approve": Approve(),
        "edit": Edit(said.text),
        "respond": Respond(said.text),
        "reject": Reject(said.text),
    }
    try:
        tree.respond(id, answers[said.answer])
    except EscalationError as error:
        raise HTTPException(409, str(error)) from error
    return {"answered": said.answer}


# -- as a program ------------------------------------------------------------------------------------------------


async def check() -> None:
    """A request to each address, in this process."""
    logger.disable("actors")
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://app") as client,
    ):
        text = "A supervisor restarts what crashes, and an orchestrator retries what fails."
        await publish_one(client, text)
        await publish_one(client, "Too short")
        ready = await client.get("/health")
        print(f"\nGET /health: {ready.status_code} {ready.json()}")
        missing = await client.get("/tasks/none")
        print(f"\nGET /tasks/none: {missing.status_code} {missing.json()['detail']}\n\n{app.state.tree.dump()}")


async def publish_one(client: httpx.AsyncClient, text: str) -> None:
    """Submit a text, answer what is asked about it, and print what every address says."""
    submitted = await client.post("/tasks", json={"text": text})
    id_ = submitted.json()["id"]
    print(f"\nPOST /tasks: {submitted.status_code} {len(text)} characters")
    async for question in app.state.tree.task(id_).questions():
        asked = (await client.get(f"/tasks/{id_}")).json()
        print(f"GET /tasks/ID: {asked['status']}, {asked['escalations'][0]['question']}")
        for said in ({"answer": "respond", "text": "notes"}, {"answer": "approve"}):
            answered = await client.post(f"/escalations/{question.id}", json=said)
            print(f"POST /escalations/ID {said['answer']}: {answered.status_code}")
    await app.state.tree.task(id_)
    print(f"GET /tasks/ID: {(await client.get(f'/tasks/{id_}')).json() | {'id': 'ID'}}")
    stream = (await client.get(f"/tasks/{id_}/events")).text
    print("GET /tasks/ID/events:", " ".join(re.findall("event: (.*)", stream)))
    print(f"GET /tasks/ID/graph:\n{(await client.get(f'/tasks/{id_}/graph')).text}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tasks over HTTP.")
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl-C")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    if given.serve:
        uvicorn.run(app, host="127.0.0.1", port=given.port)
    else:
        asyncio.run(check())
