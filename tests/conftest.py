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

SERVER_FIXTURES = frozenset({"postgres", "postgres_url"})


@pytest.hookimpl(tryfirst=True)  # before -m has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a database server as slow, but for the store's own contract."""
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        if SERVER_FIXTURES.intersection(names) and "store" not in item.path.parts:
            item.add_marker(pytest.mark.slow)
