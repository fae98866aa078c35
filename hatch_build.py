"""Puts the built page into wheels. An editable install has no use for it: `make run` builds it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import build_web


class PageBuildHook(BuildHookInterface[Any]):
    """Builds the page first; a wheel without it is not made."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node, from PyPI, only when the page must be built and there is none on PATH."""
        if build_web.is_fresh(Path(self.root)) or build_web.has_node():
            return []
        return [build_web.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are collected; `version` is "standard" or "editable"."""
        if version == "editable":
            return
        root = Path(self.root)
        build_web.build(root)
        if not (build_web.target(root) / "index.html").is_file():
            raise RuntimeError("refusing to make a wheel without its page")
