"""See to it that there is a browser for the tests of the page, and letters for both languages.

Debian's own Chromium, installed if it is missing and this user may. Without one the tests of the
page cannot run, and that is said aloud: they are never passed over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-cjk")
CJK_FONTS = Path("/usr/share/fonts/opentype/noto")


def found() -> str | None:
    """The path of a browser."""
    named = os.environ.get("PREVIOUSLY_TEST_BROWSER")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def has_letters() -> bool:
    """Whether Chinese is drawn as Chinese; pictures of boxes prove nothing."""
    asked = shutil.which("fc-list")
    if asked is None:
        return any(CJK_FONTS.glob("*CJK*"))
    told = subprocess.run([asked, ":lang=zh", "family"], capture_output=True, check=False)
    return bool(told.stdout.strip())


def install() -> None:
    """Ask the system for what is missing."""
    apt = shutil.which("apt-get")
    if apt is None:
        return
    command = [apt, "install", "-y", "--no-install-recommends", *PACKAGES]
    if os.geteuid() != 0 and (sudo := shutil.which("sudo")):
        command = [sudo, "-n", *command]
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL).returncode:
        update = [*command[: command.index("install")], "update"]
        subprocess.run(update, env=env, check=False, stdout=subprocess.DEVNULL)
        subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL)


def main() -> int:
    """1 if there is no browser in the end."""
    if found() is None or not has_letters():
        print("Installing Chromium and Chinese fonts for the tests of the page", file=sys.stderr)
        install()
    browser = found()
    if browser is None:
        print(
            "The tests of the page need Chromium, and it could not be installed. "
            "Install it (Debian: apt-get install chromium fonts-noto-cjk), "
            "or name one: PREVIOUSLY_TEST_BROWSER=/path/to/chrome",
            file=sys.stderr,
        )
        return 1
    print(f"The tests of the page use {browser}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
