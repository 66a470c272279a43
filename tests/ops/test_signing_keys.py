"""The keys that sign sessions and the queue are rotated without signing anybody out."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.http import HttpResponse
from django.test import RequestFactory

from portal.common.http.security_headers import SecurityHeadersMiddleware
from portal.environment import database
from provisioning.identity.encryption import key_records, signing_keys

CHECKOUT = Path(__file__).resolve().parents[2]
SHOW = """
import django
from django.conf import settings as s
django.setup()
print(s.SECRET_KEY, *s.SECRET_KEY_FALLBACKS, s.BUS_KEY, *s.BUS_KEY_FALLBACKS, s.SECURE_HSTS_SECONDS)
"""


@pytest.fixture
def _no_keys_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOVELLA_SECRET_KEY", "NOVELLA_BUS_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FALLBACKS", raising=False)


@pytest.mark.usefixtures("_no_keys_given")
def test_what_the_key_before_signed_is_accepted_until_it_is_dropped(db: None, tmp_path: Path, settings: Any) -> None:
    paths = {name: tmp_path / "secrets" / name for name in ("secret_key", "bus_key")}

    settings.PORTAL_DIR = tmp_path
    signing_keys.load()
    key_records.agree()
    signed, old = signing.dumps("alice"), (settings.SECRET_KEY, settings.BUS_KEY)
    call_command("rotate_signing_keys")
    signing_keys.load()
    key_records.agree()
    assert ([old[0]], [old[1]]) == (settings.SECRET_KEY_FALLBACKS, settings.BUS_KEY_FALLBACKS)
    assert len({*old, settings.SECRET_KEY, settings.BUS_KEY}) == 4
    assert signing.loads(signed) == "alice"
    assert {path.stat().st_mode & 0o777 for path in paths.values()} == {0o600}
    call_command("rotate_signing_keys", "--keep", "1")
    signing_keys.load()
    key_records.agree()
    with pytest.raises(signing.BadSignature):
        signing.loads(signed)


@pytest.mark.usefixtures("_no_keys_given")
def test_processes_that_start_at_the_same_time_have_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "portal" / "secrets" / "secret_key"
    with ThreadPoolExecutor(8) as threads:
        result = list(threads.map(lambda _: tuple(signing_keys.keys("NOVELLA_SECRET_KEY", path)), range(32)))
    assert len(set(result)) == 1
    assert [each.name for each in path.parent.iterdir()] == ["secret_key"]


@pytest.mark.usefixtures("_no_keys_given")
def test_a_command_without_keys_runs_in_a_folder_that_it_cannot_write(tmp_path: Path, settings: Any) -> None:
    (tmp_path / "secrets").touch()  # root may write in any folder, but not below a file
    settings.PORTAL_DIR, settings.ROLE, settings.SECRET_KEY = tmp_path, "command", ""
    signing_keys.load()
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        signing.dumps("alice")
    settings.ROLE = "web"
    with pytest.raises(OSError, match="secrets"):
        signing_keys.load()


def test_keys_of_the_environment_are_rotated_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOVELLA_BUS_KEY", "b" * 60)
    with pytest.raises(CommandError, match="NOVELLA_BUS_KEY"):
        call_command("rotate_signing_keys")


@pytest.mark.slow
def test_the_environment_says_which_keys_are_accepted_and_https_is_kept_to(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOVELLA_")}
    given = {
        "NOVELLA_DATA": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "NOVELLA_PUBLIC_URL": "https://cloud.example",
        "NOVELLA_SECRET_KEY": "c" * 60,
        "NOVELLA_SECRET_KEY_FALLBACKS": "a",
        "NOVELLA_BUS_KEY": "d" * 60,
        "NOVELLA_BUS_KEY_FALLBACKS": "b,bb",
    }
    done = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=CHECKOUT, env=kept | given, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["c" * 60, "a", "d" * 60, "b", "bb", "2592000"], done.stderr


@pytest.mark.parametrize(("seconds", "header"), [(0, None), (600, "max-age=600")])
def test_browsers_are_instructed_to_use_https_only(settings: Any, seconds: int, header: str | None) -> None:
    settings.SECURE_HSTS_SECONDS = seconds
    answer = SecurityHeadersMiddleware(lambda request: HttpResponse())(RequestFactory().get("/"))
    assert answer.get("Strict-Transport-Security") == header


def test_an_operator_has_what_was_answered_on_the_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> str:
        return str(database("NOVELLA_NO_URL", tmp_path, "web", 1)["OPTIONS"]["init_command"])

    monkeypatch.delenv("NOVELLA_SQLITE_SYNCHRONOUS", raising=False)
    assert "synchronous=NORMAL" in init()
    monkeypatch.setenv("NOVELLA_SQLITE_SYNCHRONOUS", "full")
    assert "synchronous=FULL" in init()
    monkeypatch.setenv("NOVELLA_SQLITE_SYNCHRONOUS", "OFF")
    with pytest.raises(ImproperlyConfigured, match="NOVELLA_SQLITE_SYNCHRONOUS"):
        init()
