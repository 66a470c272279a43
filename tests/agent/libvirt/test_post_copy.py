"""Post-copy is used only between hosts on which QEMU may do it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from compute_agent.virt.libvirt.account import ROOT, Account
from compute_agent.virt.live_migration import MigrationOptions

migration = pytest.importorskip("compute_agent.virt.libvirt.migration")
pytestmark = pytest.mark.libvirt
GUESTS = Account("guests", 12345, 12345)
OLD, NEW = 7_002_000, 9_000_000


@pytest.mark.parametrize("account", [GUESTS, ROOT])
@pytest.mark.parametrize(("content", "can"), [("0\n", False), ("1\n", True)])
def test_linux_decides_whether_qemu_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: Account, content: str, *, can: bool
) -> None:
    """libvirt runs QEMU without capabilities, also as root."""
    monkeypatch.setattr(migration, "USERFAULTS", tmp_path / "allowed")
    assert migration.can_post_copy(account, OLD)
    (tmp_path / "allowed").write_text(content)
    assert migration.can_post_copy(account, OLD) is can


def test_a_new_qemu_needs_only_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "device"
    monkeypatch.setattr(migration, "USERFAULTS", tmp_path / "allowed")
    monkeypatch.setattr(migration, "USERFAULT_DEVICE", device)
    (tmp_path / "allowed").write_text("0\n")
    assert not migration.can_post_copy(GUESTS, NEW)
    device.touch(mode=0o600)
    assert not migration.can_post_copy(GUESTS, NEW)
    device.chmod(0o666)
    assert migration.can_post_copy(GUESTS, NEW)
    assert not migration.can_post_copy(GUESTS, OLD)


def test_qemu_itself_refuses_without_capabilities() -> None:
    """The reason why the account does not count."""
    words = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "qemu-system-x86_64"]
    words += ["-machine", "none", "-nodefaults", "-display", "none", "-incoming", "defer", "-qmp", "stdio"]
    capability = {"capability": "postcopy-ram", "state": True}
    commands = [
        {"execute": "qmp_capabilities"},
        {"execute": "migrate-set-capabilities", "arguments": {"capabilities": [capability]}},
        {"execute": "quit"},
    ]
    sent = "".join(json.dumps(each) + "\n" for each in commands)
    done = subprocess.run(words, input=sent, capture_output=True, text=True, timeout=60, check=False)
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"version (\d+)\.(\d+)", version)
    assert match is not None
    number = int(match[1]) * 1_000_000 + int(match[2]) * 1000
    assert ('"error"' not in done.stdout) is migration.can_post_copy(ROOT, number)


@pytest.mark.parametrize(("shape", "used"), [({"post_copy": False}, False), ({"post_copy": True}, True), ({}, True)])
def test_the_sender_follows_the_receiver(
    monkeypatch: pytest.MonkeyPatch, shape: dict[str, bool], *, used: bool
) -> None:
    flags = list[int]()

    def begin(_: Any, __: Any, each: int) -> bytes:
        flags.append(each)
        return b""

    monkeypatch.setattr(migration.five_phases, "begin", begin)
    options = MigrationOptions(post_copy=True)
    departure = migration._LibvirtDeparture(SimpleNamespace(), "", None, None, "host", options)
    departure.begin(msgspec.msgpack.encode({"xml": "<domain/>", **shape}))
    assert bool(flags[0] & migration.POST_COPY) is departure.uses_post_copy is used
