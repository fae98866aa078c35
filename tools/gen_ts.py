"""Writes the page's types from the REST interface, so that a changed shape breaks its compiler.

    python tools/gen_ts.py [--check]

With `--check` nothing is written: exit code 1 says that the written file is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from previously.web.rest import described

TARGET = Path(__file__).parents[1] / "frontend" / "src" / "lib" / "api-types.ts"
HEAD = "// Made by tools/gen_ts.py from the REST interface: change the shapes there, not here.\n\n"
PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}

Schema = Mapping[str, Any]


def type_of(schema: Schema) -> str:
    """A JSON schema as a TypeScript type."""
    if "$ref" in schema:
        return name_of(schema["$ref"].rsplit("/", 1)[1])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return union(type_of(one) for one in schema[key])
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return union(json.dumps(one, ensure_ascii=False) for one in values)
    made = {"array": array, "object": thing}.get(schema.get("type", ""))
    return PLAIN.get(str(schema.get("type")), "unknown") if made is None else made(schema)


def union(types: Iterator[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(type_of(one) for one in schema['prefixItems'])}]"
    inner = type_of(schema.get("items", {}))
    return f"({inner})[]" if " " in inner else f"{inner}[]"


def thing(schema: Schema) -> str:
    fields = cast("Mapping[str, Schema]", schema.get("properties", {}))
    if not fields:
        others = schema.get("additionalProperties")
        inner = type_of(cast(Schema, others)) if isinstance(others, dict) else "unknown"
        return f"Record<string, {inner}>"
    needed = schema.get("required", ())
    lines = (f"  {k}{'' if k in needed else '?'}: {type_of(v)};\n" for k, v in fields.items())
    return f"{{\n{''.join(lines)}}}"


def name_of(title: str) -> str:
    return re.sub(r"\W", "_", title)


def generated() -> str:
    """The whole file."""
    schemas = cast("Mapping[str, Schema]", described()["components"]["schemas"])
    parts = (f"export type {name_of(k)} = {type_of(v)};\n" for k, v in sorted(schemas.items()))
    return HEAD + "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the page's types from the REST interface.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    args = parser.parse_args()
    text = generated()
    if not args.check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET} is out of date: run `python tools/gen_ts.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
