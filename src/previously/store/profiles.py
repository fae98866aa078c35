"""Transactions on profiles: how to reach a model. Where a key is kept is stored, never the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from previously.errors import Conflict, ProfileNotFound
from previously.store.prepared import Prepared
from previously.store.schema import profile

_P = profile.c
_COLUMNS = {  # the noun's word for it → the column
    "name": "name",
    "source": "source",
    "base_url": "base_url",
    "model": "model",
    "secret": "secret_ref",
    "window_tokens": "context_window",
    "output_tokens": "max_output",
}
_AS_JSON = {"price": "price", "limits": "limits"}


def put(conn: sa.Connection, owner: str, values: Mapping[str, Any]) -> int:
    """Make a profile or replace the one of that name; its version from now on."""
    row = _row(values)
    mine = sa.and_(_P.owner == owner, _P.name == values["name"])
    version = conn.execute(sa.select(_P.version).where(mine).with_for_update()).scalar()
    if version is None:
        conn.execute(sa.insert(profile), {"owner": owner, "version": 1, **row})
        return 1
    conn.execute(sa.update(profile).where(mine).values(version=version + 1, **row))
    return version + 1


def alter(conn: sa.Connection, owner: str, values: Mapping[str, Any], version: int | None) -> int:
    """Replace a profile; `Conflict` if it is not at `version` any more."""
    found = find(conn, owner, values["name"])
    if version is not None and (found is None or found[1] != version):
        raise Conflict("the profile was changed meanwhile")
    return put(conn, owner, values)


def _row(values: Mapping[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in values.items() if k not in _COLUMNS and k not in _AS_JSON}
    return {
        **{column: values.get(name) for name, column in _COLUMNS.items()},
        **{column: _json(values.get(name)) for name, column in _AS_JSON.items()},
        "params": _json(rest),
        "trouble": None,  # of the profile as it was
    }


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _values(row: Any) -> dict[str, Any]:
    found = {name: row[column] for name, column in _COLUMNS.items()}
    found |= {name: json.loads(row[column] or "null") for name, column in _AS_JSON.items()}
    return {**found, **json.loads(row["params"] or "{}")}


def listing(conn: sa.Connection, owner: str) -> list[tuple[dict[str, Any], int]]:
    """The owner's profiles by name, each with its version."""
    query = sa.select(profile).where(_P.owner == owner).order_by(_P.name)
    return [(_values(row), row["version"]) for row in conn.execute(query).mappings()]


_FIND = Prepared(
    sa.select(profile).where(
        _P.owner == sa.bindparam("of_owner"), _P.name == sa.bindparam("of_name")
    )
)


def find(conn: sa.Connection, owner: str, name: str) -> tuple[dict[str, Any], int] | None:
    """The values and the version of one profile."""
    found = _FIND.one(conn, {"of_owner": owner, "of_name": name})
    if found is None:
        return None
    row = dict(zip(_P.keys(), found, strict=True))
    return _values(row), row["version"]


def remove(conn: sa.Connection, owner: str, name: str) -> None:
    """Forget a profile; what it wrote stays."""
    gone = conn.execute(sa.delete(profile).where(_P.owner == owner, _P.name == name))
    if not gone.rowcount:
        known = ", ".join(values["name"] for values, _ in listing(conn, owner)) or "none"
        raise ProfileNotFound(f"no profile named {name!r}; there are: {known}")


def note_trouble(conn: sa.Connection, owner: str, name: str, trouble: str | None) -> None:
    """Why a profile cannot be asked, or that it can again."""
    mine = sa.and_(_P.owner == owner, _P.name == name)
    conn.execute(sa.update(profile).where(mine).values(trouble=trouble))


def troubles(conn: sa.Connection, owner: str) -> dict[str, str]:
    """The profiles that could not be asked when they were last needed, each with the reason."""
    query = sa.select(_P.name, _P.trouble).where(_P.owner == owner, _P.trouble.is_not(None))
    return {row.name: row.trouble for row in conn.execute(query)}
