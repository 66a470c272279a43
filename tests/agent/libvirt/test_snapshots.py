"""Copies of disks by QEMU: file systems are frozen for the moment of the copy alone, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libvirt
import libvirt_qemu
import pytest

from compute_agent.virt.errors import RetryableHostError, UnsupportedError
from compute_agent.virt.libvirt import snapshots
from compute_agent.virt.processes.programs import run_program

AGENT = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"


class Domain:
    """A guest with one disk, as libvirt shows it; ``fails`` are the calls that do not work."""

    def __init__(self, disk: Path, *, agent: bool, fails: tuple[str, ...] = ()) -> None:
        self.disk, self.agent, self.fails = disk, agent, fails
        self.calls: list[str] = []

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return True

    def XMLDesc(self) -> str:  # noqa: N802 - libvirt's name
        disk = f"<disk><source file='{self.disk}'/><target dev='vdx'/></disk>"
        return f"<domain><devices>{disk}{AGENT if self.agent else ''}</devices></domain>"

    def jobStats(self, flags: int = 0) -> dict[str, Any]:  # noqa: N802 - libvirt's name
        completed = flags & libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED
        return {"type": libvirt.VIR_DOMAIN_JOB_COMPLETED, "success": True} if completed else {"type": 0}

    def backupBegin(self, xml: str, *_: object) -> None:  # noqa: N802 - libvirt's name
        assert '<disk name="vdx" backup="yes" type="file">' in xml
        self._called("backupBegin")

    def agentSetResponseTimeout(self, *_: object) -> None:  # noqa: N802 - libvirt's name
        pass

    def fsFreeze(self) -> None:  # noqa: N802 - libvirt's name
        self._called("fsFreeze")

    def fsThaw(self) -> None:  # noqa: N802 - libvirt's name
        self._called("fsThaw")

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise libvirt.libvirtError(name)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.qcow2"
    run_program("qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M")
    return path


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU has nothing left of an earlier copy."""
    monkeypatch.setattr(libvirt_qemu, "qemuMonitorCommand", lambda *_: '{"return": []}')


def copy(domain: Domain, tmp_path: Path) -> None:
    snapshots.copy_disk(domain, domain.disk, tmp_path / "copy", "qcow2", lambda: False)


@pytest.mark.slow
def test_a_guest_without_an_agent_is_copied_as_it_is(disk: Path, tmp_path: Path) -> None:
    domain = Domain(disk, agent=False)
    copy(domain, tmp_path)
    assert domain.calls == ["backupBegin"]


@pytest.mark.slow
def test_file_systems_stand_still_while_the_copy_begins(disk: Path, tmp_path: Path) -> None:
    domain = Domain(disk, agent=True)
    copy(domain, tmp_path)
    assert domain.calls == ["fsFreeze", "backupBegin", "fsThaw"]


@pytest.mark.slow
def test_a_guest_whose_agent_does_not_answer_is_copied_all_the_same(disk: Path, tmp_path: Path) -> None:
    domain = Domain(disk, agent=True, fails=("fsFreeze",))
    copy(domain, tmp_path)
    assert domain.calls == ["fsFreeze", "backupBegin", "fsThaw"]  # it may have frozen them, and said so too late


@pytest.mark.slow
def test_a_copy_that_cannot_begin_leaves_nothing_frozen(disk: Path, tmp_path: Path) -> None:
    domain = Domain(disk, agent=True, fails=("backupBegin", "fsThaw"))
    with pytest.raises(RetryableHostError):
        copy(domain, tmp_path)
    assert domain.calls == ["fsFreeze", "backupBegin", *["fsThaw"] * snapshots.THAWS]
    assert not (tmp_path / "copy").exists()


def test_a_copy_is_not_begun_without_room(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LEAST_FREE", 1 << 62)
    domain = Domain(disk, agent=True)
    with pytest.raises(RetryableHostError, match="no space"):
        copy(domain, tmp_path)
    assert domain.calls == []


@pytest.mark.slow
def test_a_copy_that_needs_frozen_file_systems_fails_without_them(disk: Path, tmp_path: Path) -> None:
    silent, without = Domain(disk, agent=True, fails=("fsFreeze",)), Domain(disk, agent=False)
    for domain, words, calls in ((silent, "does not answer", ["fsFreeze", "fsThaw"]), (without, "no guest agent", [])):
        with pytest.raises(UnsupportedError, match=words):
            snapshots.copy_disk(domain, disk, tmp_path / "copy", "qcow2", lambda: False, needs_quiesce=True)
        assert domain.calls == calls
        assert not (tmp_path / "copy").exists()
