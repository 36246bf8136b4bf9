"""A tool of an MCP server whose structured result has a field ``result`` among others: none of them is lost."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import MCP


def test_a_field_that_is_called_result_hides_no_other_and_a_bare_value_is_itself() -> None:
    server = MCPServer("sums")

    @server.tool()
    def both() -> dict[str, Any]:
        """Give two fields."""
        return {"result": 1, "unit": "kg"}

    @server.tool()
    def bare() -> int:
        """Give a number."""
        return 7

    spec = SupervisorSpec(id="t", tasks=Tasks(), children=[WorkerSpec(id="m", execute=MCP(server))])
    steps = [Subtask(tool, worker="m", tool=tool) for tool in ("both", "bare")]
    with start(spec) as tree:
        report = tree.run(Task("go", plan=Plan(steps)), timeout=60.0)

    assert report.results == {"both": {"result": 1, "unit": "kg"}, "bare": 7}
