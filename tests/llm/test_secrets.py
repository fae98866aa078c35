from __future__ import annotations

import copy
import os
import pickle
import traceback
from pathlib import Path

import pytest

from previously.errors import BadInput, NotConfigured
from previously.llm.secrets import Secret, resolve

KEY = "sk-test-4f9b2c7d8e1a"


def test_a_key_comes_from_the_environment_that_is_passed_in() -> None:
    secret = resolve("env:CHEAP_KEY", {"CHEAP_KEY": f" {KEY}\n"})
    assert secret is not None
    assert secret.reveal() == KEY
    assert secret.reveal("Bearer ") == f"Bearer {KEY}"
    assert resolve(None, {}) is None


def test_a_variable_that_is_not_set_is_named() -> None:
    for environment in ({}, {"CHEAP_KEY": "  "}):
        with pytest.raises(NotConfigured, match="CHEAP_KEY, which is not set"):
            resolve("env:CHEAP_KEY", environment)


def test_a_key_comes_from_a_file_that_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    secret = resolve(f"file:{path}", {})
    assert secret is not None
    assert secret.reveal() == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
def test_a_file_that_others_can_reach_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(mode)
    with pytest.raises(NotConfigured, match=f"chmod 600 {path}"):
        resolve(f"file:{path}", {})


def test_a_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="No such file"):
        resolve(f"file:{tmp_path / 'none'}", {})
    with pytest.raises(NotConfigured, match="Is a directory"):
        resolve(f"file:{tmp_path}", {})
    empty = tmp_path / "empty"
    empty.touch(0o600)
    with pytest.raises(NotConfigured, match="which is empty"):
        resolve(f"file:{empty}", {})


@pytest.mark.parametrize("broken", ["two\nlines", "tab\tbed", "schlüssel", "nul\0l"])
def test_what_no_header_can_carry_is_no_key(broken: str) -> None:
    with pytest.raises(NotConfigured, match="no key") as caught:
        resolve("env:K", {"K": broken, "OTHER": KEY})
    shown = "".join(_with_locals(caught.value))
    assert broken not in shown
    assert KEY not in shown


def test_a_key_in_the_place_of_its_reference_is_refused_without_repeating_it() -> None:
    with pytest.raises(BadInput) as caught:
        resolve(KEY, {})
    assert caught.value.field == "secret"
    assert KEY not in str(caught.value)


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret(KEY)
    shown = (
        f"{secret} {secret!r} {secret.reveal()!r} { {'authorization': secret.reveal('Bearer ')} }"
    )
    assert shown == "*** *** *** {'authorization': ***}"
    assert not hasattr(secret, "__dict__")
    for write_down in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            write_down(secret)


def test_a_secret_takes_itself_out_of_texts_however_it_is_quoted() -> None:
    secret = Secret('ab"c/d+e')
    texts = ['key ab"c/d+e.', "?key=ab%22c%2Fd%2Be&x", r'{"key": "ab\"c/d+e"}']
    for text in texts:
        assert "c/d" not in secret.redact(text)
        assert "c%2Fd" not in secret.redact(text)
        assert secret.redact_bytes(text.encode()).decode() == secret.redact(text)
    assert Secret("x").redact("a text with x") == "a text with x"


def _with_locals(error: BaseException) -> list[str]:
    """What a crash reporter would show, of our own frames."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [frame for frame in shown.stack if f"src{os.sep}previously" in frame.filename]
    assert ours
    return [f"{frame.locals}" for frame in ours] + [str(error)]
