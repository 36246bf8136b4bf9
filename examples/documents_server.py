"""An MCP server for a folder of text, over standard streams: the worker ``files`` of ``research.py``.

pip install '.[mcp]'
python examples/documents_server.py DIR        serve the texts of a folder
python examples/documents_server.py ""         serve what the installed packages say about themselves
"""

from __future__ import annotations

import argparse
import os
import signal
from importlib.metadata import distributions
from pathlib import Path

DOCUMENTS = 40
SUFFIXES = {".md", ".rst", ".txt"}


def documents(folder: str) -> dict[str, str]:
    """Texts by name, in a stable order: of a folder, or what the installed packages say about themselves."""
    if folder:
        paths = sorted(path for path in Path(folder).rglob("*") if path.suffix in SUFFIXES and path.is_file())
        found = {str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace") for path in paths}
    else:
        said = ((each.metadata["Name"], each.read_text("METADATA")) for each in distributions())
        found = dict(sorted((name, text) for name, text in said if name and text))
    return dict(list(found.items())[:DOCUMENTS])


def serve(folder: str, dies_once: str) -> None:
    """Serve the documents over standard streams; with ``dies_once``, a file, the first read kills this process."""
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - research.py reads the documents as well, without it
    from mcp_types import ToolAnnotations  # noqa: PLC0415 - the same

    texts = documents(folder)
    server = MCPServer("files")
    reads = ToolAnnotations(read_only_hint=True)  # so a call that is lost with its server is made again

    @server.tool(annotations=reads)
    def list_documents() -> list[str]:
        """List the names of all documents."""
        return list(texts)

    @server.tool(annotations=reads)
    def read_document(name: str) -> str:
        """Read the beginning of a document."""
        if dies_once and not Path(dies_once).exists():
            Path(dies_once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return texts.get(name, f"There is no document {name!r}.")[:2000]

    @server.tool(annotations=reads)
    def find(word: str) -> list[str]:
        """List the names of the documents that have a word in them."""
        return [name for name, text in texts.items() if word.casefold() in text.casefold()]

    server.run("stdio")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder of text, or empty")
    parser.add_argument("--dies-once", default="", metavar="FILE", help="the first read makes this file and dies")
    args = parser.parse_args()
    serve(args.folder, args.dies_once)


if __name__ == "__main__":
    main()
