"""Machines that share a database share the keys: each compares its own with the cloud's before it serves anybody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from portal.ops.management.commands import web
from provisioning.common.processes.before_fork import in_child
from provisioning.doctor.checks.keys import keys_that_differ
from provisioning.identity.encryption import key_records, keys
from provisioning.identity.encryption.key_records import KeyMismatchError
from provisioning.identity.encryption.keys import KeysMissingError
from provisioning.identity.models import KeyHolder, KeyRecord
from provisioning.jobs import registry

pytestmark = pytest.mark.django_db
Machine = Callable[[str], Path]


@pytest.fixture
def on(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Go on as a process of another machine, whose keys are in the folder that this returns."""

    def go(name: str) -> Path:
        folder = tmp_path / name
        monkeypatch.setattr(key_records, "this_machine", lambda: name)
        existing = {kind: (folder / kind).is_dir() for kind in ("tokens", "credentials")}
        settings.TOKEN_KEYS_DIR, settings.CREDENTIAL_KEYS_DIR = folder / "tokens", folder / "credentials"
        for kind, was_there in existing.items():
            if not was_there:
                shutil.rmtree(folder / kind)
        return folder

    return go


@pytest.fixture
def two(on: Machine) -> Machine:
    """Machines a and b with the same keys; processes go on as b's."""
    first = on("a")
    key_records.agree()
    shutil.copytree(first, first.with_name("b"))
    on("b")
    key_records.agree()
    return on


def test_a_new_cloud_gets_all_its_keys_and_their_fingerprints(on: Machine) -> None:
    folder = on("a")
    key_records.agree()
    assert {path.name for path in folder.iterdir()} == {"tokens", "credentials"}
    assert set(KeyRecord.objects.values_list("kind", flat=True)) == set(key_records.KINDS)
    for record in KeyRecord.objects.all():
        assert len(record.current) == 16
        assert record.current not in {path.read_text() for path in folder.rglob("*") if path.is_file()}
    key_records.agree()
    assert KeyHolder.objects.count() == len(key_records.KINDS)


def test_a_copy_made_after_the_start_works_on_both(two: Machine) -> None:
    token = keys.TOKENS.current().encrypt(b"x")
    two("a")
    assert keys.TOKENS.current().decrypt(token) == b"x"
    key_records.agree()


@pytest.mark.parametrize("kind", ["tokens", "credentials"])
def test_a_machine_without_keys_creates_none_and_does_not_start(two: Machine, kind: str) -> None:
    folder = two("c")
    shutil.copytree(two("a"), folder, dirs_exist_ok=True)
    two("c")
    shutil.rmtree(folder / kind)
    with pytest.raises(KeyMismatchError, match=str(folder / kind)):
        key_records.agree()
    assert not (folder / kind).exists()
    with pytest.raises(KeysMissingError):
        (keys.TOKENS if kind == "tokens" else keys.CREDENTIALS).current()


def test_a_folder_that_is_away_for_a_moment_gets_no_new_key(two: Machine) -> None:
    folder = two("a") / "credentials"
    secret = keys.CREDENTIALS.current().encrypt(b"x")
    folder.rename(folder.with_name("away"))
    with pytest.raises(KeysMissingError):
        keys.CREDENTIALS.current()
    folder.with_name("away").rename(folder)
    assert keys.CREDENTIALS.current().decrypt(secret) == b"x"


@pytest.mark.both_databases("locks")
def test_other_keys_are_refused_until_an_operator_accepts_them(
    two: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    two("c")
    keys.TOKENS.ensure()
    keys.CREDENTIALS.ensure()
    with pytest.raises(KeyMismatchError):
        key_records.agree()
    assert [each.severity for each in keys_that_differ()] == ["error"]
    with pytest.raises(CommandError):
        call_command("keys")
    call_command("keys", "--accept")
    assert keys.TOKENS.fingerprints()[0] in capsys.readouterr().out
    assert {each.subject for each in keys_that_differ()} == {"machine a", "machine b"}
    for machine in ("a", "b"):
        call_command("keys", "--forget", machine)
    assert list(keys_that_differ()) == []
    with pytest.raises(CommandError):
        call_command("keys", "--forget", "a")


@pytest.mark.parametrize("setting", ["SECRET_KEY", "BUS_KEY"])
def test_signing_keys_are_compared_too(two: Machine, settings: Any, setting: str) -> None:
    before = getattr(settings, setting)
    setattr(settings, setting, "of another machine, and long enough to sign something with it")
    with pytest.raises(KeyMismatchError, match=f"NOVELLA_{setting}"):
        key_records.agree()
    setattr(settings, f"{setting}_FALLBACKS", [before])
    with pytest.raises(KeyMismatchError, match="a could not decrypt"):
        key_records.agree()
    key_records.forget("a")
    key_records.agree()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "kind"), [("rotate_token_keys", "tokens"), ("rotate_credential_keys", "credentials")]
)
def test_a_new_key_is_on_every_machine_before_it_is_used(two: Machine, command: str, kind: str) -> None:
    folder = two("a") / kind
    held = keys.TOKENS if kind == "tokens" else keys.CREDENTIALS
    with pytest.raises(CommandError, match="b also uses these keys"):
        call_command(command)
    assert [path.name for path in folder.iterdir()] == ["1"]
    with pytest.raises(CommandError, match="--add"):
        call_command(command, "--use")
    call_command(command, "--add")
    call_command(command, "--add")
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2.next"]
    with pytest.raises(CommandError, match="b does not have"):
        call_command(command, "--use")
    old = held.current().encrypt(b"old")
    shutil.copytree(folder, two("b") / kind, dirs_exist_ok=True)
    call_command("keys")
    two("a")
    call_command(command, "--use")
    fresh = held.current().encrypt(b"fresh")
    two("b")
    key_records.agree()
    assert [held.current().decrypt(each) for each in (old, fresh)] == [b"old", b"fresh"]
    call_command(command, "--use")
    assert held.newest().decrypt(fresh) == b"fresh"
    assert KeyRecord.objects.get(kind=kind).current == held.fingerprints()[0]


def test_one_machine_rotates_in_one_step(on: Machine) -> None:
    folder = on("a")
    key_records.agree()
    for number in ("2", "3"):
        call_command("rotate_credential_keys")
        assert max(path.name for path in (folder / "credentials").iterdir()) == number
    assert KeyRecord.objects.get(kind="credentials").current == keys.CREDENTIALS.fingerprints()[0]


def test_a_worker_group_with_other_keys_does_not_start(two: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    two("c")
    monkeypatch.setattr("provisioning.jobs.management.commands.qworker.run_group", lambda *_, **__: pytest.fail("ran"))
    assert key_records.agree_if_possible in [*registry.START_CHECKS]
    with pytest.raises(CommandError, match="tokens"):
        call_command("qworker")


def test_a_web_server_with_other_keys_does_not_start(
    two: Machine, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    two("c")
    settings.ROLE = "web"
    monkeypatch.setattr(web, "listen", lambda *_: pytest.fail("listens"))
    monkeypatch.setattr(web, "in_child", lambda work: _text_of(work))
    with pytest.raises(CommandError, match="tokens"):
        call_command("web")


def _text_of(work: Callable[[], None]) -> str:
    try:
        work()
    except KeyMismatchError as error:
        return error.message
    return ""


def test_what_a_child_raises_comes_back_as_text() -> None:
    """In a process of its own: this one has threads."""
    program = (
        "from provisioning.common.processes.before_fork import in_child\n"
        "def fails():\n    raise ValueError('wrong ' * 3)\n"
        "print([in_child(fails), in_child(lambda: None)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "['wrong wrong wrong ', '']"
    assert callable(in_child)
