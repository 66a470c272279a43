"""Notes of guests that never started, which would hold up the embedded libvirt."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from compute_agent.virt.libvirt import interrupted_starts
from tests.support.one_machine import wait_for

NOTE = "<!--\nWARNING: generated\n-->\n\n<domstatus state='{state}' reason='starting up' pid='{pid}'>\n</domstatus>\n"


def comm(pid: int) -> str:
    """The name of a process; a new one has its parent's for a moment."""
    return Path(f"/proc/{pid}/comm").read_text()


def note(root: Path, name: str, pid: int, state: str = "paused") -> Path:
    folder = root / "run" / "qemu"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pid").write_text(str(pid))
    (folder / f"{name}.xml").write_text(NOTE.format(state=state, pid=pid))
    return folder / f"{name}.xml"


def test_notes_without_a_process_of_qemu_are_forgotten(tmp_path: Path) -> None:
    cut_off = note(tmp_path, "cut-off", 0)
    gone = note(tmp_path, "gone", 4_194_305)  # above the kernel's largest process number
    reused = note(tmp_path, "reused", os.getpid())
    assert interrupted_starts.forget(tmp_path) == ["cut-off", "gone", "reused"]
    assert not [path for one in (cut_off, gone, reused) for path in (one, one.with_suffix(".pid")) if path.exists()]
    assert interrupted_starts.forget(tmp_path) == []


def test_the_note_of_a_living_guest_is_kept(tmp_path: Path) -> None:
    qemu = tmp_path / "qemu-system-x86"
    shutil.copy("/bin/sleep", qemu)
    process = subprocess.Popen([qemu, "60"])
    try:
        wait_for("the program runs under its name", lambda: comm(process.pid).startswith("qemu"), 60)
        kept = note(tmp_path, "guest", process.pid, "running")
        assert interrupted_starts.forget(tmp_path) == []
        assert kept.exists()
    finally:
        process.kill()
        process.wait()


def test_a_new_root_has_no_notes(tmp_path: Path) -> None:
    assert interrupted_starts.forget(tmp_path / "new") == []
