"""A Ceph of one node for one run of the tests: ``python -m tests.support.ceph_server FOLDER PID [ADDRESS]``.

It ends, with all its files, when the process with that number does.  A daemon that a test kills is started again, as
an init system would.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from tools.ceph import CephError, Cluster

READY = "ready"
"""The file in the folder that says that the cluster can be used."""
FAILED = "failed"
"""The file in the folder that says why it cannot."""
LOOK_EVERY = 0.2
PAUSE = 1.0
"""Seconds between a daemon's death and its next start."""


def serve(folder: Path, pid: int, address: str) -> None:
    """Start the cluster and stay until the process ends."""
    session = os.pidfd_open(pid)
    folder.mkdir(mode=0o755)
    cluster = Cluster(folder, address)
    try:
        try:
            cluster.start()
        except CephError as error:
            (folder / FAILED).write_text(str(error))
            select.select([session], [], [])
            return
        (folder / READY).touch()
        while not select.select([session], [], [], LOOK_EVERY)[0]:
            for name in cluster.ended():
                time.sleep(PAUSE)
                cluster.start_daemon(name)
    finally:
        cluster.stop(keep=False)
        Path(f"{folder}.lock").unlink(missing_ok=True)


def address_of(pid: int) -> str:
    """An address of the loopback network for each process: runs beside each other keep apart."""
    return f"127.{64 + (pid >> 16) % 64}.{pid >> 8 & 255}.{pid & 255}"


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), (sys.argv[3:] or [address_of(int(sys.argv[2]))])[0])
