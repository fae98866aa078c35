"""What every test shares: Hypothesis never judges by the clock; speed is for benchmarks.

On a developer's machine each run tries new examples; where CI is set they are the same every time,
so that a red build is about the change and not about luck.
"""

import os

from hypothesis import settings

pytest_plugins = ["tests.postgres"]

settings.register_profile("house", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "house")  # noqa: TID251 - tests' own edge
