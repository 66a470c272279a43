"""The process of a storage daemon: how it is started, found again after a restart of the agent, and ended."""

import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from compute_agent.virt.processes import processes
from compute_agent.virt.processes.programs import SYSTEM_PATH
from compute_agent.virt.processes.rights import Rights
from compute_agent.volumes.daemons.qmp import DaemonError, Qmp

log = logging.getLogger(__name__)

PROGRAM = "qemu-storage-daemon"
QMP_SOCKET, NBD_SOCKET, PID_FILE, LOG = "qmp.sock", "nbd.sock", "pid", "log"
READY = "ready"
"""The file that is created when the daemon has all its exports. It does not exist if the agent was killed before."""
START_SECONDS = 20.0
STARTS, ANSWER_SECONDS = 3, 5.0
"""The number of attempts to start a daemon, and the seconds in which it must answer."""
QUIT_SECONDS = 30.0
MOST_CONNECTIONS = 100
"""Limit of the clients of one daemon, including those that have not presented a certificate yet."""
BACKLOG = 16


def launch(folder: Path, held: Sequence[int], rights: Rights, listen: socket.socket | None = None) -> None:
    """Start a daemon without open volumes, and return when it answers. The daemon inherits the descriptors ``held``,
    and exports at the socket ``listen``, if given. Raises DaemonError.

    A daemon that receives a command before it has started completely may never answer (about one in a hundred on a busy
    host). Therefore ``--daemonize`` is used, which returns only after the start. If the daemon still does not answer,
    it is ended, and another one is started.
    """
    for left in reversed(range(STARTS)):
        _spawn(folder, held, rights, listen)
        try:
            Qmp(folder / QMP_SOCKET, ANSWER_SECONDS).close()
        except DaemonError as error:
            pid = running(folder)
            if pid is not None:
                processes.kill(pid)
            if not left:
                raise
            log.warning("A storage daemon that does not answer is started again: %s", error.detail)
        else:
            return


def _spawn(folder: Path, held: Sequence[int], rights: Rights, listen: socket.socket | None) -> None:
    """Start the program. It writes its process id into the pid file itself, because the agent may be killed at any
    moment.

    The daemon's account can write only the pid file in the folder, because root reads and writes the other files.
    Raises DaemonError.
    """
    for name in (QMP_SOCKET, PID_FILE, READY):
        (folder / name).unlink(missing_ok=True)
    (folder / PID_FILE).touch(mode=0o600)
    if rights.account is not None:
        rights.account.change_owner(folder / PID_FILE, 0o600)
    with listening(folder / QMP_SOCKET) as monitor, (folder / LOG).open("wb") as output:
        words = [*rights.command, PROGRAM, "--daemonize", "--pidfile", str(folder / PID_FILE)]
        words += ["--chardev", f"socket,fd={monitor.fileno()},server=on,wait=off,id=monitor"]
        words += ["--monitor", "chardev=monitor"]
        descriptors = [*held, monitor.fileno()]
        if listen is not None:
            words += ["--nbd-server", f"addr.type=fd,addr.str={listen.fileno()},max-connections={MOST_CONNECTIONS}"]
            descriptors.append(listen.fileno())
        try:
            done = subprocess.run(  # noqa: S603
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
                pass_fds=descriptors,
                cwd="/",
                timeout=START_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DaemonError(f"{PROGRAM}: {error}") from error
    if done.returncode != 0:
        log_end = (folder / LOG).read_text(errors="replace")[-500:]
        raise DaemonError(f"it does not start: {log_end or done.returncode}")


def listening(path: Path) -> socket.socket:
    """Return a unix socket at ``path`` to which only the agent's account can connect. An existing socket is
    replaced.
    """
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(str(path))
        path.chmod(0o600)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise DaemonError(f"{path}: {error}") from error
    return made


def running(folder: Path) -> int | None:
    """Return the process id of a folder's daemon; None if it does not run, or if the process is not this daemon."""
    pid = processes.read_pid(folder / PID_FILE)
    if pid is None:
        return None
    processes.collect(pid)
    return pid if _is_of(pid, re.escape(os.fsencode(folder))) else None


def is_ready(folder: Path) -> bool:
    """Return whether the daemon of a folder runs and has all its exports."""
    return (folder / READY).exists() and running(folder) is not None


def end(folder: Path) -> None:
    """End a daemon by QMP, or kill it if it does not end in time. Does nothing if no daemon runs."""
    pid = running(folder)
    if pid is None:
        return
    with contextlib.suppress(DaemonError), Qmp(folder / QMP_SOCKET, QUIT_SECONDS) as qmp:
        qmp.execute("quit")
    if not processes.ended(pid, QUIT_SECONDS):
        log.warning("The storage daemon %s does not end; it is killed.", pid)
        processes.kill(pid, signal.SIGKILL)


def remove(folder: Path) -> None:
    """End the folder's daemon as ``end`` does, and remove the folder."""
    end(folder)
    shutil.rmtree(folder, ignore_errors=True)


def strays(runtime: Path) -> Iterator[int]:
    """Yield the process ids of daemons that were started in folders below ``runtime`` which no longer exist."""
    known = {running(path.parent) for path in runtime.glob(f"*/{PID_FILE}")}
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        if pid not in known and _is_of(pid, re.escape(os.fsencode(runtime)) + rb"/[^/\0]+"):
            yield pid


def _is_of(pid: int, folder: bytes) -> bool:
    """Return whether a process was started as the daemon of the folder. Daemons of earlier agent versions have the path
    of their QMP socket as an argument.
    """
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    marks = rb"(\0--pidfile\0%s/pid\0|socket,path=%s/qmp\.sock,)" % (folder, folder)
    return re.search(marks, command) is not None
