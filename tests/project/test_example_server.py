"""``examples/fastapi_host.py`` as a server: clients follow the events of a task, and Ctrl-C ends it all at once."""

from __future__ import annotations

import itertools
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.command import Process
from tests.support.ports import free_port
from tests.support.programs import python

httpx = pytest.importorskip("httpx", reason="needs the extra 'example'")
for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra 'example'")

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_host.py"


def test_ctrl_c_with_an_open_client_of_events_ends_the_fastapi_example_at_once(tmp_path: Path) -> None:
    with _served(tmp_path) as (program, url):
        submitted = httpx.post(f"{url}/tasks", json={"text": "Too short"}, timeout=60)
        events = f"{url}/tasks/{submitted.json()['id']}/events"
        with httpx.stream("GET", events, timeout=60) as stream:
            lines = stream.iter_lines()
            seen = list(itertools.takewhile(lambda line: line != "event: EscalationRaised", lines))
            last = [line for line in seen if line.startswith("id: ")][-1]
            with httpx.stream("GET", events, headers={"Last-Event-ID": "3"}, timeout=60) as later:
                assert next(later.iter_lines()) == "id: 4"
                program.send_signal(signal.SIGINT)
                began = time.monotonic()
                rest = list(lines)  # the stream ends, and is whole: else this raises
                program.wait(60)
                took_s = time.monotonic() - began
        refused = program.communicate()[1]

    assert took_s < 10  # it waits for a person for a day
    assert int(last.removeprefix("id: ")) > 3
    assert not any("TaskFinished" in line for line in rest)
    assert "Exception in ASGI application" not in refused
    assert "Application shutdown complete" in refused


def test_a_client_that_has_seen_the_end_is_told_not_to_come_back(tmp_path: Path) -> None:
    with _served(tmp_path) as (_, url):
        submitted = httpx.post(f"{url}/tasks", json={"text": "A text of more than five words"}, timeout=60)
        events = f"{url}/tasks/{submitted.json()['id']}/events"
        lines = httpx.get(events, timeout=60).text.splitlines()
        last = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")][-1]
        missed = httpx.get(events, headers={"Last-Event-ID": str(last - 1)}, timeout=60)
        over = httpx.get(events, headers={"Last-Event-ID": str(last)}, timeout=60)

    assert "event: TaskFinished" in missed.text
    assert (over.status_code, over.text) == (204, "")


@contextmanager
def _served(tmp: Path) -> Iterator[tuple[Process, str]]:
    """The example as a server, on a port that is free."""
    port = free_port()
    with python(EXAMPLE, "--serve", "--port", port, cwd=tmp) as program:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and program.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield program, f"http://127.0.0.1:{port}"
        finally:
            program.kill()
