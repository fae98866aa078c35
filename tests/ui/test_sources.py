"""What can be told of the page without a browser: words, sizes, where markup is made."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from previously.align import ending, mend, reading

ROOT = Path(__file__).parents[2]
FRONT = ROOT / "frontend"
STATIC = ROOT / "src/previously/web/static"
FIRST_VIEW_BYTES_MAX = 120 * 1024

# Names and units that are the same in both languages.
ALIKE = (
    "profiles.key",  # as other programs name it in Chinese
    "brand.line",
    "client.",
    "tokens",
    "floors.range",
    "start.connect.url",
    "start.sample.other",
    "format.",
    "source.",
    "summaries.name",
    "profiles.url",
    "backfill.tokens",
    "setting.range",
)


def _words(language: str) -> dict[str, str]:
    text = (FRONT / f"src/lib/i18n/{language}.ts").read_text(encoding="utf-8")
    return {
        name or bare: words
        for name, bare, words in re.findall(
            r'^  (?:"([^"]+)"|(\w+)):\s+"((?:[^"\\]|\\.)*)",$', text, re.MULTILINE
        )
    }


def test_both_languages_have_the_same_words() -> None:
    zh, en = _words("zh"), _words("en")
    assert len(en) > 300
    assert zh.keys() == en.keys()
    names = re.compile(r"\{(\w+)")
    for key, words in en.items():
        assert sorted(names.findall(words)) == sorted(names.findall(zh[key])), key


def test_chinese_is_chinese() -> None:
    plain = {key for key, words in _words("zh").items() if not re.search(r"[一-鿿]", words)}
    assert {key for key in plain if not key.startswith(ALIKE)} == set()


def test_every_reason_for_passing_a_request_on_is_said_in_both_languages() -> None:
    told = {
        value
        for module in (ending, mend, reading)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and " " in value
    }
    reasons = told - {reading.UNKNOWN_LAST}  # of a side request, which is no turn at all
    assert len(reasons) == 10
    slugs = {re.sub(r"[^a-z0-9]+", "_", reason.lower()).strip("_") for reason in reasons}
    assert {f"said.{slug}" for slug in slugs} <= _words("en").keys()


def test_markup_is_made_in_one_file_only() -> None:
    makers = re.compile(r"InnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(")
    found = {p.name for p in (FRONT / "src").rglob("*.ts*") if makers.search(p.read_text("utf-8"))}
    assert found == {"md.tsx"}


def test_the_lock_names_no_registry_and_vouches_for_every_package() -> None:
    lock = json.loads((FRONT / "package-lock.json").read_text("utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert package["integrity"].startswith("sha512-"), name


def test_the_first_view_is_light() -> None:
    index = (STATIC / "index.html").read_text("utf-8")
    named = [STATIC / path for path in re.findall(r'(?:src|href)="/(assets/[^"]+)"', index)]
    assert len(named) >= 3
    first = sum(len(gzip.compress(path.read_bytes())) for path in named)
    every = (STATIC / "assets").iterdir()
    everything = sum(len(gzip.compress(path.read_bytes())) for path in every)
    assert first <= FIRST_VIEW_BYTES_MAX
    assert everything <= FIRST_VIEW_BYTES_MAX  # whichever tab one opens first


def test_the_page_names_nothing_elsewhere() -> None:
    outside = re.compile(r"(?:src|href)=\"(?:https?:)?//|url\((?:https?:)?//|@import")
    for path in (STATIC / "index.html", *(STATIC / "assets").glob("*.css")):
        assert not outside.search(path.read_text("utf-8")), path.name
    assert "licen" in (STATIC / "THIRD_PARTY_LICENSES.txt").read_text("utf-8").lower()
