"""Which lanes there are, and which of them a preset uses."""

from __future__ import annotations

from previously.errors import BadInput
from previously.lanes import Lane
from previously.lanes.volumes import Volumes

LANES: dict[str, Lane] = {lane.name: lane for lane in (Volumes(),)}
PRESETS: dict[str, str] = {"volumes": "volumes"}  # preset → its history lane
DEFAULT_PRESET = "volumes"


def history_lane(preset: str) -> str:
    """The lane that replaces old messages under this preset."""
    if preset not in PRESETS:
        raise BadInput(
            f"unknown preset {preset!r}; there are: {', '.join(PRESETS)}", field="preset"
        )
    return PRESETS[preset]
