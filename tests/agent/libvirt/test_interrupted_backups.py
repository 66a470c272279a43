"""What libvirt noted of a copy whose agent died over it is mended before libvirt reads it, and QEMU's part is ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import libvirt_qemu
import pytest

from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.libvirt import interrupted_backups

NOTE = """<domstatus state='running' reason='booted' pid='4711'>
  <monitor path='/x' type='unix'/>
  <job type='none' async='backup' flags='0x0' asyncStarted='1795295116244'{end}
  {data}
  <domain type='qemu'><name>novella-1</name></domain>
</domstatus>
"""


def write(root: Path, **values: str) -> Path:
    folder = root / "run" / "qemu"
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "novella-1.xml"
    note.write_text(NOTE.format(**{"end": "/>", "data": "", **values}))
    return note


@pytest.mark.parametrize("end", ["/>", "><disk name='vda'/></job>"])
def test_a_job_of_nothing_is_taken_out_and_the_rest_stays(tmp_path: Path, end: str) -> None:
    note = write(tmp_path, end=end)
    assert interrupted_backups.forget(tmp_path) == ["novella-1"]
    assert "backup" not in note.read_text()
    assert note.read_text().count("<job ") == 1
    assert "<domain type='qemu'><name>novella-1</name></domain>" in note.read_text()
    assert [path.name for path in note.parent.iterdir()] == ["novella-1.xml"]
    assert interrupted_backups.forget(tmp_path) == []


def test_a_job_that_libvirt_can_go_on_with_is_left_to_it(tmp_path: Path) -> None:
    note = write(tmp_path, data="<domainbackup mode='push'/>")
    before = note.read_text()
    assert interrupted_backups.forget(tmp_path) == []
    assert note.read_text() == before


def test_other_jobs_and_an_empty_folder_are_no_concern(tmp_path: Path) -> None:
    assert interrupted_backups.forget(tmp_path) == []
    note = write(tmp_path)
    note.write_text(note.read_text().replace("async='backup'", "async='save'"))
    assert interrupted_backups.forget(tmp_path) == []


class Qemu:
    """QEMU's monitor, and the domain as libvirt shows it: one disk with a base under it."""

    USED = ("libvirt-2-format", "libvirt-2-storage", "libvirt-1-format", "libvirt-1-storage")

    def __init__(self, *left: str, **jobs: str) -> None:
        """``left`` are nodes of nobody; ``jobs`` are types by name."""
        self.nodes = [*self.USED, "libvirt-pflash0-storage", "#block123", *left]
        self.jobs = {name: {"id": name, "type": kind, "status": "running"} for name, kind in jobs.items()}
        self.calls: list[tuple[str, str]] = []
        self.stubborn = False

    def name(self) -> str:
        return "novella-1"

    def XMLDesc(self) -> str:  # noqa: N802 - libvirt's name
        base = "<backingStore type='file'><source file='/base' index='1'/><backingStore/></backingStore>"
        return f"<domain><devices><disk><source file='/disk' index='2'/>{base}</disk></devices></domain>"

    def command(self, _domain: object, text: str, _flags: int) -> str:
        words = json.loads(text)
        return json.dumps(
            self.answer(words["execute"], **{k.replace("-", "_"): v for k, v in words["arguments"].items()})
        )

    def answer(self, command: str, **arguments: Any) -> dict[str, Any]:
        if command == "query-jobs":
            return {"return": list(self.jobs.values())}
        if command == "query-named-block-nodes":
            return {"return": [{"node-name": name} for name in self.nodes]}
        (name,) = arguments.values()
        self.calls.append((command, name))
        if self.stubborn:
            return {"error": {"class": "GenericError", "desc": "not now"}}
        if command == "job-cancel":
            self.jobs[name]["status"] = "concluded"
        elif command == "job-dismiss":
            del self.jobs[name]
        elif command == "blockdev-del":
            self.nodes.remove(name)
        return {"return": {}}


def end(monkeypatch: pytest.MonkeyPatch, qemu: Qemu) -> list[str]:
    monkeypatch.setattr(libvirt_qemu, "qemuMonitorCommand", qemu.command)
    monkeypatch.setattr(interrupted_backups, "END_SECONDS", 0.05)
    return interrupted_backups.end(qemu)


def test_qemus_job_is_ended_before_its_nodes_go_users_first(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = Qemu("libvirt-3-storage", "libvirt-3-format", copy="backup")
    assert end(monkeypatch, qemu) == ["copy", "libvirt-3-format", "libvirt-3-storage"]
    steps = ["job-cancel", "job-dismiss", "blockdev-del", "blockdev-del"]
    assert [command for command, _ in qemu.calls] == steps
    assert set(Qemu.USED) < set(qemu.nodes)
    assert end(monkeypatch, qemu) == []


def test_nodes_without_a_job_go_and_jobs_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = Qemu("libvirt-3-storage", move="mirror")
    assert end(monkeypatch, qemu) == ["libvirt-3-storage"]
    assert list(qemu.jobs) == ["move"]


@pytest.mark.parametrize("qemu", [Qemu(copy="backup"), Qemu("libvirt-3-storage")])
def test_what_does_not_end_is_reported_and_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, qemu: Qemu
) -> None:
    qemu.stubborn = True
    with pytest.raises(RetryableHostError):
        end(monkeypatch, qemu)
