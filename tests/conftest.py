"""What every test shares: Hypothesis never judges by the clock; speed is for benchmarks.

On a developer's machine each run tries new examples; where CI is set they are the same every time,
so that a red build is about the change and not about luck.

The fast tier holds the store's contract against both databases, and tells everything else on
SQLite: what needs a server outside `tests/store` is slow.
"""

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.postgres"]

settings.register_profile("house", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "house")  # noqa: TID251 - tests' own edge

SERVER = "postgres"  # what a parameter is called that asks for it
SERVER_FIXTURES = frozenset({SERVER, "postgres_url"})


def _needs_server(item: pytest.Item) -> bool:
    chosen = getattr(item, "callspec", None)
    names: list[str] = getattr(item, "fixturenames", [])
    asked = chosen is not None and SERVER in list(chosen.params.values())
    return asked or bool(SERVER_FIXTURES.intersection(names))


@pytest.hookimpl(tryfirst=True)  # before -m has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a database server as slow, but for the store's own contract."""
    for item in items:
        if "store" not in item.path.parts and _needs_server(item):
            item.add_marker(pytest.mark.slow)
