"""Post-copy is used only between hosts on which QEMU may do it."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("account", "content", "can"), [(GUESTS, "0\n", False), (GUESTS, "1\n", True), (ROOT, "0\n", True)]
)
def test_linux_decides_whether_qemu_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: Account, content: str, *, can: bool
) -> None:
    monkeypatch.setattr(migration, "USERFAULTS", tmp_path / "allowed")
    assert migration.can_post_copy(account)
    (tmp_path / "allowed").write_text(content)
    assert migration.can_post_copy(account) is can


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
