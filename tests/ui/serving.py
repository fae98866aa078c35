"""A real server in a process of its own, and the few requests that tests prepare its chats with."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

SRC = Path(__file__).parents[2] / "src"
START_S = 60.0
SETTLE_S = 120.0
MAIN = "import sys; from previously.cli import main; sys.exit(main())"


class Server:
    """`previously serve` on a data folder; stopped and started again at will, on the same port."""

    def __init__(self, data: Path, upstream: str = "") -> None:
        self.data = data
        self.upstream = upstream
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        options = ["serve", "--json", "--port", str(self.port), "--data", str(self.data)]
        options += ["--upstream", self.upstream] if self.upstream else []
        env = {**os.environ, "PYTHONPATH": str(SRC)}  # noqa: TID251 - tests' own edge
        env = {k: v for k, v in env.items() if not k.startswith("PREVIOUSLY_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *options], env=env, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told, "the server did not start; its error stands above"
        self.port = int(json.loads(told)["address"].rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> float:
        """How many seconds it took to end."""
        if self._process is None:
            return 0.0
        began = time.monotonic()
        self._process.send_signal(how)
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return time.monotonic() - began

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """One request; what it answers, from JSON."""
        raw = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(
            f"{self.url}/api/{path}", data=raw, method=method, headers={"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{method} {path}: {refused.code} {refused.read()!r}") from refused
        return json.loads(text) if text else None

    def chat(self, name: str, texts: list[str], *, settle: bool = True) -> str:
        """A chat in which these texts were said in turn; its id."""
        lines = [
            json.dumps({"role": ("user", "assistant")[i % 2], "content": text})
            for i, text in enumerate(texts)
        ]
        made = self.api("POST", f"import?name={quote(name)}", "\n".join(lines).encode())
        if settle:
            self.settle(made["chat"]["id"])
        return made["chat"]["id"]

    def talk(self, name: str, said: list[str]) -> None:
        """Turns through the proxy, by a client that keeps no history of its own."""
        for text in said:
            told = [
                {"role": "system", "content": "You are Mara, who keeps the lighthouse."},
                {"role": "user", "content": text},
            ]
            self.ask(name, told, previously={"managed": True})

    def ask(self, name: str, messages: list[dict[str, str]], **more: Any) -> None:
        """One request through the proxy."""
        request = urllib.request.Request(
            f"{self.url}/c/{quote(name)}/v1/chat/completions",
            data=json.dumps({"model": "any", "messages": messages, **more}).encode(),
            headers={"Content-Type": "application/json", "Authorization": "Bearer any"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()

    def sent(self, chat: str, turns: int) -> None:
        """Wait until so many turns are written down."""
        end = time.monotonic() + SETTLE_S
        while len(self.api("GET", f"chats/{chat}/turns")["items"]) < turns:
            assert time.monotonic() < end, f"chat {chat} has not that many turns"
            time.sleep(0.1)

    def settle(self, chat: str) -> None:
        """Wait until nothing is due in a chat."""
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end:
            found = self.api("GET", f"chats/{chat}")
            if not found["due"] and not found["working"]:
                return
            time.sleep(0.1)
        raise AssertionError(f"chat {chat} does not settle")


class Upstream:
    """A model that answers anything, in a process of its own."""

    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        command = [sys.executable, "-m", "previously.testing", "--port", str(port)]
        env = {**os.environ, "PYTHONPATH": str(SRC)}  # noqa: TID251 - tests' own edge
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the model did not start"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
