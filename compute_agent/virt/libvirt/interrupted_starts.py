"""Status files of guests whose start was interrupted. Such files would block the embedded libvirt for minutes.

libvirt records a guest as starting, with process 0, before it starts QEMU. If the agent dies in between, the next agent
finds the file, waits for a process that never existed, and answers every call about that guest with "cannot acquire
state change lock". The same happens with status files from before a reboot of the machine. For libvirt, a defined guest
without a status file is shut off.
"""

import logging
import re
from pathlib import Path

log = logging.getLogger(__name__)

_PID = re.compile(rb"<domstatus [^>]*\bpid='(\d+)'")
_HEAD = 64 * 1024


def forget(root: Path) -> list[str]:
    """Remove status files below libvirt's ``root`` whose guests have no QEMU process. Return the names of their
    domains.

    Must be called before libvirt opens the root. The file of a running QEMU is never changed.
    """
    forgotten = []
    for note in sorted((root / "run" / "qemu").glob("*.xml")):
        with note.open("rb") as file:
            match = _PID.search(file.read(_HEAD))
        if match is None or _is_qemu(int(match[1])):
            continue
        note.unlink(missing_ok=True)
        note.with_suffix(".pid").unlink(missing_ok=True)
        log.warning("The start of %s was interrupted; it counts as shut off.", note.stem)
        forgotten.append(note.stem)
    return forgotten


def _is_qemu(pid: int) -> bool:
    if pid == 0:
        return False
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("qemu")
    except OSError:
        return False
