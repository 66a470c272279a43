"""Disks that arrive from another host are on the disk, with their names, before the move continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compute_agent.contract.moves import FLAT, GuestOrigin, SentDisk
from compute_agent.virt.processes.programs import run_program
from tests.agent.cast import make_spec

moving = pytest.importorskip("compute_agent.virt.libvirt.moving")
pytestmark = pytest.mark.libvirt


def test_the_folder_is_synchronized_after_the_disk_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, synced = tmp_path / "disk.qcow2", list[tuple[str, bool]]()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), target.exists()))
        real(descriptor)

    def fetch(disk: SentDisk, path: Path, disk_format: str) -> None:
        run_program("qemu-img", "create", "-q", "-f", disk_format, str(path), "1M")

    monkeypatch.setattr(os, "fsync", fsync)
    origin = GuestOrigin(disks=[SentDisk(name=FLAT, size=1 << 20)], base="an-image")
    moving._receive_root(make_spec(), target, None, origin, {FLAT: origin.disks[0]}, fetch)
    assert synced == [(str(target.with_suffix(".received")), False), (str(tmp_path), True)]
