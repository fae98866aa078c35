"""What every test shares: Hypothesis never judges by the clock; speed is for benchmarks."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
