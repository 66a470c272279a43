"""What libvirt noted of a copy whose agent died over it is mended before libvirt reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

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
