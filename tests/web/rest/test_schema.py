"""What the interface says of itself holds for whatever is sent, and the page's types follow it."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from previously.web.rest import described
from tests.web.rest.rig import opened
from tools import gen_ts

pytestmark = pytest.mark.slow

fuzz: Any = importlib.import_module("schemathesis")  # its types are only partly known
conformance: Any = importlib.import_module("schemathesis.specs.openapi.checks")
CHECKS: list[Any] = [
    importlib.import_module("schemathesis.checks").not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
]
EXAMPLES = 12  # for each operation
REAL = {"chat": "c1", "message": "m1-3", "summary": "s1-1", "profile": "pbWFpbg", "token": "k1"}
# A stream has no end, and a test of a profile talks to whatever address it was given.
LEFT_OUT = {"/events", "/profiles/{profile}/test"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A server in a thread of its own, with a chat, its summaries and a profile."""
    folder = tmp_path_factory.mktemp("rest")
    ready: list[str] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with opened(folder / "previously.db", folder) as rest:
            await rest.chat(60)
            await rest.post("profiles", {"name": "main", "source": "extractive"})
            ready.append(rest.address)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(30)
        yield ready[0]
    finally:
        stop.set()
        thread.join(20)


def operations() -> list[Any]:
    schema = fuzz.openapi.from_dict(described())
    found = [one.ok() for one in schema.get_all_operations()]
    return [one for one in found if one.path not in LEFT_OUT]


@pytest.mark.timeout(240)
def test_whatever_is_sent_the_answer_is_one_that_was_described(address: str):
    for number, operation in enumerate(operations()):
        examine(operation, f"{address}/api", number)


def examine(operation: Any, base_url: str, number: int) -> None:
    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy(), real=st.booleans())
    def hold(case: Any, real: bool) -> None:
        if real and case.path_parameters:
            known = {k: v for k, v in REAL.items() if k in case.path_parameters}
            case.path_parameters.update(known)
        if operation.method == "delete" and operation.path == "/chats/{chat}":
            case.path_parameters["chat"] = "c999"  # the others still need theirs
        case.call_and_validate(base_url=base_url, checks=CHECKS)

    hold()


def test_every_operation_has_words_and_every_body_an_example_or_few_fields():
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)
            assert {"4XX", "5XX"} <= set(operation["responses"]), (method, path)


def test_the_pages_types_are_those_of_the_interface():
    written = gen_ts.TARGET.read_text(encoding="utf-8")
    assert written == gen_ts.generated(), "run `python tools/gen_ts.py`"


def test_types_are_written_as_typescript_reads_them():
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]},
            "b": {"type": "array", "items": {"enum": ["x", "y"]}},
            "c": {"type": "array", "prefixItems": [{"type": "string"}, {"const": True}]},
            "d": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/E"}},
        },
    }
    assert gen_ts.type_of(schema) == (
        '{\n  a: number | null;\n  b?: ("x" | "y")[];\n  c?: [string, true];\n'
        "  d?: Record<string, E>;\n}"
    )
