"""The tools of MCP servers as a toolset of pydantic-ai: ``Toolset`` where that framework is loaded."""

from __future__ import annotations

from typing import Any, Final

from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from trees.agents.mcp_toolset import Toolset, tool_schema

_ANYTHING: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""The server checks what it is given, and says what is wrong with it."""


class PydanticToolset(Toolset, AbstractToolset[Any]):
    """Toolset of one attempt."""

    @property
    def id(self) -> str | None:
        """Name it by its servers."""
        return "-".join(self.workers)

    async def get_tools(self, ctx: Any) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002 - the same for each request
        """List them."""
        return {
            each.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=each.name,
                    description=each.info.description or None,
                    parameters_json_schema=tool_schema(each.info),
                ),
                max_retries=1,
                args_validator=_ANYTHING,
            )
            for each in self.offered.values()
        }

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:  # noqa: ARG002 - the same
        """Call one."""
        return await self.call(name, tool_args)
