"""CONTRACT, MCP servers: tools are capabilities, a session lives as long as an incarnation, secrets stay secret."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from actors import ChildExited, ConfigError, StartError
from actors.testing import ManualClock
from tests.support.crew import Record
from tests.support.ports import free_port
from tests.trees.agents.mcp_server import server
from tests.trees.agents.mcp_trees import (
    AT_ONCE,
    call,
    command,
    eventually,
    failure,
    http_server,
    is_alive,
    of_kind,
    office,
    row,
)
from tests.trees.agents.plain_mcp_server import DEATHS
from trees import (
    Backoff,
    Plan,
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskFailedError,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.agents import MCP, mcp_session

KINDS = pytest.mark.parametrize("kind", ["command", "url", "object"])
SECRET = "t0p-s3cret-token"  # noqa: S105 - of nothing


# -- tools as capabilities -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "by"), [("command", "capability"), ("url", "tool"), ("object", "capability")])
def test_a_subtask_calls_a_tool_by_capability_or_by_worker_and_tool(kind: str, by: str) -> None:
    with contextlib.ExitStack() as stack:
        tree = stack.enter_context(start(office(of_kind(kind, stack, plain=by == "tool"))))

        assert call(tree, "read_file", by=by, path="a.txt") == "content of a.txt"
        assert call(tree, "numbers", by=by) == {"one": 1}


def test_its_tools_stand_in_the_registry_with_description_and_input_schema() -> None:
    with contextlib.ExitStack() as stack:
        found = row(stack.enter_context(start(office(of_kind("object", stack), capabilities={"disk"}))))
        tool = next(each for each in found.tools if each.name == "read_file")

        assert {"disk", "read_file", "write_file"} <= found.capabilities
        assert (tool.description, tool.read_only) == ("Read a file.", True)
        assert tool.input_schema["required"] == ["path"]
        assert "Read a file." in found.description
        assert "path" in json.dumps(found.input_schema)


def test_planners_see_the_tools() -> None:
    seen: list[Any] = []

    def planner(task: Task, catalogue: Any, feedback: str) -> Plan:
        seen.extend(catalogue)
        return Plan([Subtask("a", capability="numbers")])

    with contextlib.ExitStack() as stack:
        tree = stack.enter_context(start(office(of_kind("object", stack), tasks=Tasks(planner=planner))))
        tree.run("count", timeout=60)

    assert "read_file" in seen[0].capabilities


def test_a_fixed_plan_may_name_a_tool_that_is_known_when_the_server_is_up() -> None:
    plan = StaticPlan([Subtask("a", capability="numbers"), Subtask("b", worker="files", tool="numbers")])
    with contextlib.ExitStack() as stack:
        tree = stack.enter_context(start(office(of_kind("object", stack), tasks=Tasks(planner=plan))))

        assert tree.run("count", timeout=60).results == {"a": {"one": 1}, "b": {"one": 1}}


def test_tools_that_the_server_does_not_have_are_a_start_error_that_names_them() -> None:
    with (
        pytest.raises(StartError, match=r"no tool 'raed_file'.*read_file"),
        start(office(MCP(server()), tools=["raed_file"])),
    ):
        raise AssertionError("it started")


def test_tools_is_for_servers_only() -> None:
    with pytest.raises(ConfigError, match="tools says which tools of an MCP server may be used"):
        start(office(lambda task: None, tools=["a"]))


@pytest.mark.slow
@KINDS
def test_tools_that_change_are_listed_anew(kind: str) -> None:
    with contextlib.ExitStack() as stack:
        tree = stack.enter_context(start(office(of_kind(kind, stack))))
        call(tree, "change")
        eventually(lambda: "later" in row(tree).capabilities)

        assert "numbers" not in row(tree).capabilities
        assert call(tree, "later") == "later"


@pytest.mark.parametrize(
    ("tool", "inputs", "expected"),
    [
        ("nothing", {}, None),
        ("huge", {"size": 3_000_000}, "x" * 3_000_000),
        (
            "picture",
            {},
            [{"type": "text", "text": "a pixel"}, {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}],
        ),
    ],
)
def test_results_of_all_kinds_become_json(tool: str, inputs: dict[str, Any], expected: Any) -> None:
    with start(office(MCP(server()))) as tree:
        assert call(tree, tool, **inputs) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "object"])
def test_the_progress_of_a_tool_is_that_of_its_attempt_and_says_no_secret(kind: str) -> None:
    server = (
        MCP(command=command(), env={"TOKEN": SECRET}) if kind == "command" else of_kind(kind, contextlib.ExitStack())
    )
    with start(office(server)) as tree:
        record = Record(tree)

        assert call(tree, "count", secret=SECRET) == "counted"
        told = [(each.fraction, each.text) for each in record.of(SubtaskProgressed)]
        assert [fraction for fraction, _ in told] == [0.5, 1.0, 1.0]
        assert [text[:6] for _, text in told] == ["1 of 2", "2 of 2", "looks "]
        assert kind == "object" or SECRET not in str(told)


def test_missing_inputs_are_named_before_anything_is_called() -> None:
    with start(office(MCP(server()))) as tree:
        said = failure(tree, "read_file")

    assert "read_file needs path" in said
    assert "inputs={'path': ...}" in said


def test_inputs_of_the_task_that_the_tool_does_not_take_are_left_out() -> None:
    plan = Plan([Subtask("a", capability="read_file")])
    with start(office(MCP(server()))) as tree:
        report = tree.run(Task("g", plan=plan, inputs={"path": "b.txt", "other": 1}), timeout=60)

    assert report.results == {"a": "content of b.txt"}


# -- failures ------------------------------------------------------------------------------------------------


def test_is_error_is_a_failed_attempt_and_no_crash() -> None:
    with start(office(MCP(server()), on_failure=[])) as tree:
        said = failure(tree, "fail")

        assert "no such disk" in said
        assert tree.child("office/files").incarnation == 1


def test_a_server_that_ends_at_rest_is_started_again() -> None:
    with start(office(MCP(command=command("--plain")))) as tree:
        os.kill(call(tree, "pid"), signal.SIGKILL)
        eventually(lambda: tree.child("office/files").incarnation == 2)

        assert call(tree, "numbers") == {"one": 1}


def test_a_call_in_flight_is_tried_again_where_the_tool_is_idempotent(tmp_path: Path) -> None:
    with start(office(MCP(command=command("--plain")), on_failure=AT_ONCE)) as tree:
        assert call(tree, "die_once", mark=str(tmp_path / "mark")) == "done"
        assert tree.child("office/files").incarnation == 2


@pytest.mark.parametrize("ladder", ["retry", "failover"])
def test_a_call_in_flight_of_any_other_tool_fails_with_its_key_and_is_not_done_twice(
    tmp_path: Path, ladder: str
) -> None:
    from trees import Failover  # noqa: PLC0415

    mark, more = tmp_path / "mark", []
    if ladder == "failover":
        more = [WorkerSpec(id="other", execute=MCP(command=command("--plain")))]
    spec = office(MCP(command=command("--plain")), *more, on_failure=[*AT_ONCE, Failover()])
    with start(spec) as tree:
        with pytest.raises(TaskFailedError) as caught:
            tree.run(
                Task("g", id="t-7", plan=Plan([Subtask("a", capability="die", inputs={"mark": str(mark)})])),
                timeout=30.0,
            )

        assert "key t-7@a:1" in str(caught.value)
        assert mark.read_text() == "x"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), [("command", "timeout"), ("url", "cancel")])
def test_timeouts_and_cancels_cancel_the_request_at_the_server(tmp_path: Path, kind: str, how: str) -> None:
    mark = tmp_path / "mark"
    inputs = {"mark": str(mark)}
    with contextlib.ExitStack() as stack:
        clock = ManualClock()
        tree = stack.enter_context(start(office(of_kind(kind, stack), on_failure=[]), clock=clock))
        limit = 0.5 if how == "timeout" else None
        handle = tree.submit(Task("g", plan=Plan([Subtask("a", capability="hang", inputs=inputs, timeout_s=limit)])))
        eventually(lambda: mark.exists() and mark.read_text())
        if how == "cancel":
            handle.cancel()
        clock.advance(0.5)
        with pytest.raises((TaskFailedError, TaskCancelledError)):
            handle.result(60)
        eventually(lambda: mark.read_text() == "cancelled")

        assert call(tree, "numbers") == {"one": 1}
        assert tree.child("office/files").incarnation == 1


def test_an_http_server_that_dies_and_comes_back_is_connected_to_again(tmp_path: Path) -> None:
    port = free_port()
    backoff = Backoff(initial_s=0.05, factor=1.0, max_s=0.05, jitter=0.0)
    with contextlib.ExitStack() as stack:
        first = contextlib.ExitStack()
        url = first.enter_context(http_server(port))
        spec = office(MCP(url=url), on_failure=AT_ONCE, max_restarts=1000, backoff=backoff)
        tree = stack.enter_context(start(spec))
        before = call(tree, "pid")
        first.close()
        stack.enter_context(http_server(port))
        written = call(tree, "write_file", path=str(tmp_path / "w"), text="ab")  # it was never sent to the dead one

        assert written == 2
        assert call(tree, "pid") != before
        assert (tmp_path / "w").read_text() == "ab"


def reads_200_times(server: MCP, then: Callable[[Tree, TaskHandle], int]) -> None:
    """Call a read-only tool 200 times, while something kills the server so often."""
    limits = {"max_restarts": 1000, "period_s": 1.0}
    subtasks = [Subtask(f"s{n}", capability="read_file", inputs={"path": str(n)}) for n in range(200)]
    spec = office(server, on_failure=AT_ONCE, breaker=None, tasks=Tasks(max_subtasks=300), **limits)
    with start(spec) as tree:
        record = Record(tree)
        handle = tree.submit(Task("g", plan=Plan(subtasks)))
        kills = then(tree, handle)
        report = handle.result(120.0)

        assert report.results == {f"s{n}": f"content of {n}" for n in range(200)}
        assert len(record.of(ChildExited, "office/files")) >= kills - 1


@pytest.mark.slow
def test_killed_50_times_during_200_calls_of_read_only_tools_every_call_ends_in_a_result(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.touch()

    reads_200_times(MCP(command=command("--plain", "--deaths", str(deaths))), lambda *_: DEATHS)

    assert deaths.stat().st_size == DEATHS


# -- start ---------------------------------------------------------------------------------------------------


def start_error(execute: Any, **fields: Any) -> str:
    with pytest.raises(StartError) as caught, start(office(execute, **fields)):
        raise AssertionError("it started")
    return str(caught.value)


def test_a_program_that_is_not_installed_is_named_with_what_to_do() -> None:
    said = start_error(MCP(command=["no-such-mcp-server", "--x"]))

    assert "'no-such-mcp-server'" in said
    assert "Install the server" in said


def test_a_missing_working_directory_is_named() -> None:
    assert "'/no/such/folder' does not exist" in start_error(MCP(command=command(), cwd="/no/such/folder"))


def test_a_server_that_dies_at_once_says_how_and_its_last_line_without_secrets() -> None:
    said = start_error(MCP(command=command("--dies"), env={"TOKEN": SECRET}))

    assert "exit code 7" in said
    assert "cannot open the vault" in said
    assert SECRET not in said


def test_a_server_that_is_slow_is_up_when_it_answers() -> None:
    with start(office(MCP(command=command("--plain", "--slow", "0.5")))) as tree:
        assert call(tree, "numbers") == {"one": 1}


def test_one_that_does_not_answer_in_time_is_a_start_error_and_is_gone(tmp_path: Path) -> None:
    mark = tmp_path / "pids"
    said = start_error(MCP(command=command("--deaf", "--child", str(mark))), start_timeout_s=8.0)
    pids = [int(word) for word in mark.read_text().split()]

    assert "within 8 s" in said
    eventually(lambda: not any(is_alive(pid) for pid in pids))


def test_rubbish_on_stdout_is_passed_over() -> None:
    with start(office(MCP(command=command("--plain", "--rubbish")))) as tree:
        assert call(tree, "numbers") == {"one": 1}


def test_a_program_that_is_no_server_ends_with_its_exit_code() -> None:
    assert "exit code 0" in start_error(MCP(command=["true"]))


def test_nobody_at_the_address_is_a_start_error() -> None:
    assert "127.0.0.1" in start_error(MCP(url=f"http://127.0.0.1:{free_port()}/mcp"))


def test_a_server_that_cannot_start_does_not_keep_the_tree_from_starting_and_planners_do_not_see_it(
    tmp_path: Path,
) -> None:
    seen: list[list[str]] = []

    def planner(task: Task, catalogue: Any, feedback: str) -> Plan:
        seen.append([each.id for each in catalogue])
        return Plan([Subtask("a", worker="other")])

    program = tmp_path / "server"
    spec = office(
        MCP(command=[str(program)]),
        WorkerSpec(id="other", execute=lambda task: "done"),
        tasks=Tasks(planner=planner),
        required=False,
        on_exhausted="park",
    )
    with start(spec) as tree:
        tree.run("one", timeout=60)
        eventually(lambda: tree.child("office/files").state == "parked")
        words = " ".join(f"'{word}'" for word in command("--plain"))
        program.write_text(f"#!/bin/sh\nexec {words}\n")
        program.chmod(0o755)
        tree.restart_child("office/files")
        tree.run("two", timeout=60)

        assert seen == [["other"], ["files", "other"]]
        assert call(tree, "numbers") == {"one": 1}


# -- what is declared ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "names no server"),
        ({"command": ["a"], "url": "http://x"}, "command and url together"),
        ({"command": "server --x"}, "expected a list of texts, got a str"),
        ({"command": []}, "is empty"),
        ({"url": "localhost:80"}, "begins with http:// or https://"),
        ({"url": "http://x", "env": {"A": "b"}}, "is for command="),
        ({"command": ["a"], "headers": {"A": "b"}}, "is for url="),
        ({"command": ["a"], "env": {"A": 1}}, "expected a dict of texts"),
        ({"server": object()}, "is no server object"),
        ({"server": MCPServer}, "is no server object"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_said_at_once(given: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        MCP(**given)


def test_a_missing_extra_is_a_problem_of_the_check_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata  # noqa: PLC0415

    from trees.agents import packages  # noqa: PLC0415

    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    packages.package_flaw.cache_clear()
    monkeypatch.setattr(metadata, "version", missing)
    try:
        with pytest.raises(ConfigError, match="extra 'mcp'"):
            start(office(MCP(command=["server"])))
    finally:
        packages.package_flaw.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "url"])
def test_secrets_are_in_no_dump_log_journal_error_or_repr(
    kind: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(10)
    with contextlib.ExitStack() as stack:
        if kind == "command":
            server = MCP(command=command("--token", SECRET), env={"TOKEN": SECRET})
        else:
            url = stack.enter_context(http_server())
            server = MCP(url=f"{url}?key={SECRET}", headers={"Authorization": f"Bearer {SECRET}"})
        spec = office(server, on_failure=[])
        tree = stack.enter_context(start(spec))
        record = Record(tree)
        said = [failure(tree, "fail"), call(tree, "numbers"), tree.dump(), repr(server), repr(spec), row(tree)]
        os.kill(call(tree, "pid"), signal.SIGKILL) if kind == "command" else None
        tree.ref("office/files").tell("what is this?")
        said += [record.of(object), failure(tree, "fail")]  # type: ignore[type-var]
    out = capfd.readouterr()

    assert SECRET not in f"{said}"
    assert SECRET not in out.out + out.err
    ours = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore", "mcp", "asyncio"))]
    assert SECRET not in "".join(each.getMessage() for each in ours)


def test_secrets_in_the_address_are_in_no_log_of_the_libraries_either(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    before = [len(logging.getLogger(name).filters) for name in mcp_session._LOGS]
    with http_server() as url, start(office(MCP(url=f"{url}?api_key={SECRET}&version=1"))) as tree:
        assert call(tree, "read_file", path="x") == "content of x"

    assert "HTTP Request" in caplog.text, "they log each request"
    assert SECRET not in caplog.text
    assert [len(logging.getLogger(name).filters) for name in mcp_session._LOGS] == before


def test_a_team_may_have_a_server() -> None:
    team = office(MCP(server())).model_copy(update={"id": "team"})
    spec = SupervisorSpec(id="office", tasks=Tasks(), children=[team])
    with start(spec) as tree:
        plan = Plan([Subtask("a", capability="numbers")])
        assert tree.run(Task("g", plan=plan), path="office/team", timeout=60).results == {"a": {"one": 1}}
