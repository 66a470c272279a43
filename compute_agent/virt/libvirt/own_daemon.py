"""A libvirt daemon that the agent starts. It can receive running guests, which libvirt's embedded driver cannot.

It runs in the agent's mount namespace and uses the directories of the embedded driver. Both drivers therefore see
the same guests, and a restart of the agent switches a host from one driver to the other while its guests run. The
daemon listens only on a Unix socket below the agent's state, which only root can enter.
"""

import ctypes
import logging
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

from compute_agent.virt.errors import HypervisorUnavailableError
from compute_agent.virt.libvirt import private_mounts
from compute_agent.virt.processes.processes import is_ours, kill, read_pid
from compute_agent.virt.processes.programs import SYSTEM_PATH

log = logging.getLogger(__name__)

PROGRAM = "libvirtd"
PLACES = {
    "etc": Path("/etc/libvirt"),
    "run": Path("/run/libvirt"),
    "lib": Path("/var/lib/libvirt"),
    "log": Path("/var/log/libvirt"),
    "cache": Path("/var/cache/libvirt"),
}
"""Directories of the embedded driver's root → libvirt's own directories."""
READY_WITHIN = 30.0
PAUSE = 0.05
PR_SET_PDEATHSIG = 1


def installed() -> bool:
    """Return whether the daemon's program is installed."""
    return shutil.which(PROGRAM, path=SYSTEM_PATH) is not None


def mount(root: Path) -> None:
    """Mount the directories of ``root`` over libvirt's own; requires ``private_mounts.unshare``. Raises OSError."""
    for name, place in PLACES.items():
        folder = root / name
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        private_mounts.bind(folder, place)


def uri(root: Path) -> str:
    """Return the URI of the daemon for ``root``."""
    return f"qemu+unix:///system?socket={root / 'run' / 'libvirt-sock'}"


class OwnDaemon:
    """The daemon of one root. It ends with the agent; guests keep running."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the daemon unless it runs, and wait until it answers. Raises HypervisorUnavailableError."""
        if self.runs:
            return
        self._end_earlier()
        socket = self._root / "run" / "libvirt-sock"
        socket.unlink(missing_ok=True)
        conf = self._root / "etc" / "libvirtd.conf"
        conf.write_text(self._settings())
        command = [PROGRAM, "--config", str(conf), "--pid-file", str(self._pid_file)]
        log_file = self._root / "log" / "libvirtd.out"
        try:
            with log_file.open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
                    preexec_fn=_end_with_parent,
                )
        except OSError as error:
            raise HypervisorUnavailableError("The host's libvirt daemon does not start.", detail=str(error)) from error
        deadline = time.monotonic() + READY_WITHIN
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise HypervisorUnavailableError("The host's libvirt daemon does not start.", detail=str(log_file))
            time.sleep(PAUSE)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(READY_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def _pid_file(self) -> Path:
        return self._root / "run" / "libvirtd.pid"

    def _end_earlier(self) -> None:
        """End the daemon of an earlier agent: two would manage the same guests."""
        pid = read_pid(self._pid_file)
        if pid is not None and is_ours(pid, [self._root]):
            kill(pid, signal.SIGKILL)

    def _settings(self) -> str:
        """Return the daemon's settings, with an id of the host that does not depend on the machine's."""
        return f"""\
# Written by Novella's agent for its own libvirt daemon.
auth_unix_rw = "none"
auth_unix_ro = "none"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
unix_sock_ro_perms = "0700"
listen_tls = 0
listen_tcp = 0
log_outputs = "3:file:{self._root}/log/libvirtd.log"
host_uuid = "{uuid.uuid5(uuid.NAMESPACE_URL, str(self._root))}"
"""


def _end_with_parent() -> None:
    """End the daemon when the agent is killed; runs in the child."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.setsid()
