"""Remove every guest an agent made with the embedded driver: the last word of ``bin/up --clean``."""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
from pathlib import Path

from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt.paths import HostPaths

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0


def remove_everything(settings: AgentSettings) -> list[str]:
    """Kill the guests of this agent's embedded libvirt and remove their files; return a line for each thing done.

    No agent may run on the folder meanwhile.  A process is touched only when its pid file lies under the root and its
    command line names that root.  Guests of another libvirt (``libvirt_uri`` is not ``embed``) are the agent's to
    destroy, not ours.  Idempotent.
    """
    paths = HostPaths(settings.state_dir.absolute())
    done = []
    for pid_file in sorted(paths.state.glob("libvirt/run/qemu/*.pid")):
        pid = _pid(pid_file)
        if pid is not None and is_ours(pid, [paths.libvirt_root, paths.state / "libvirt"]) and kill(pid):
            done.append(f"guest {pid_file.stem} (process {pid})")
    for folder in (paths.state / "libvirt", paths.instances):
        if folder.exists():
            shutil.rmtree(folder)
            done.append(str(folder))
    if paths.link.is_symlink() and paths.link.readlink() == paths.state:
        paths.link.unlink()
    return done


def is_ours(pid: int, marks: list[Path]) -> bool:
    """Say whether the command line of ``pid`` names one of ``marks`` (a folder or a file under it)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(os.fsencode(mark) + end in command for mark in marks for end in (b"/", b"\0"))


def kill(pid: int) -> bool:
    """Kill a process and wait until it is gone; say whether it was there."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            log.warning("process %s does not end", pid)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _pid(path: Path) -> int | None:
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None
