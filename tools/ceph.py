"""A complete Ceph of one node for tests, measurements and experiments: a monitor, a manager and one OSD in one folder.

``python3 tools/ceph.py FOLDER ADDRESS`` runs one until it is interrupted; the folder stays for the next time.

It starts within about ten seconds, needs 250 MB of memory, and ends with the process that started it. It is not for
data that must be kept: there is one copy of everything, in a sparse file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

POOL = "volumes"
CLIENT = "novella"
"""The pool, and the client whose access is limited to it."""
START_WITHIN = 120.0
DAEMONS = ("mon.a", "mgr.x", "osd.0")
PACKAGES = "ceph-mon ceph-osd ceph-mgr ceph-common"
CAPS = {
    "client.admin": {"mon": "allow *", "osd": "allow *", "mgr": "allow *"},
    "mgr.x": {"mon": "allow profile mgr", "osd": "allow *"},
    "osd.0": {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"},
    f"client.{CLIENT}": {"mon": "profile rbd", "osd": f"profile rbd pool={POOL}", "mgr": f"profile rbd pool={POOL}"},
}
MANAGER_MODULES = (
    "balancer", "crash", "devicehealth", "iostat", "orchestrator", "pg_autoscaler", "progress", "rbd_support",
    "restful", "status", "telemetry", "volumes",
)  # fmt: skip
"""Modules without which the manager reports HEALTH_ERR. They are replaced by empty modules, which saves 200 MB of
memory.
"""
_EMPTY_MODULE = "from mgr_module import MgrModule\nclass Module(MgrModule):\n    pass\n"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class CephError(Exception):
    """The cluster cannot be started. The message gives the reason."""


class Cluster:
    """A cluster with its files in one folder and its daemons on one address."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", *, size: int = 20 << 30, secure: bool = False) -> None:
        """Use a folder (new, or of an earlier cluster) and an address of this machine that no other Ceph uses. ``size``
        is the capacity in bytes; with ``secure``, all connections are encrypted.
        """
        self.folder, self.address, self.size, self.secure = folder, address, size, secure
        self.conf = folder / "ceph.conf"
        self.keyring = folder / f"{CLIENT}.keyring"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Create the files, start the daemons, and create the pool. Raises CephError."""
        if shutil.which("ceph-osd") is None:
            raise CephError(f"Ceph is not installed (apt install {PACKAGES}).")
        if not (self.folder / "mon.a" / "kv_backend").exists():
            self._prepare()
        self.start_daemon("mon.a")
        self.start_daemon("mgr.x")
        if not (self.folder / "osd.0" / "ready").exists():
            number = str(uuid.uuid4())
            self.run("ceph", "osd", "new", number, "0")
            self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", number)
        self.start_daemon("osd.0")
        if POOL not in self.run("ceph", "osd", "pool", "ls").split():
            self.run("ceph", "osd", "pool", "create", POOL, "8")
            # Required for clones of unprotected snapshots, and for flattening that does not change the snapshots.
            self.run("ceph", "osd", "set-require-min-compat-client", "mimic")
            self.run("rbd", "pool", "init", POOL)
        self.wait_until_measured(POOL)

    def _prepare(self) -> None:
        for name in ("run", "log", "crash", "modules", "mon.a", "mgr.x", "osd.0"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        number = str(uuid.uuid4())
        self.conf.write_text(self._configuration(number))
        for module in MANAGER_MODULES:
            place = self.folder / "modules" / module
            place.mkdir(exist_ok=True)
            (place / "__init__.py").write_text("from .module import Module\n")
            (place / "module.py").write_text(_EMPTY_MODULE)
        for shared in ("mgr_module.py", "mgr_util.py"):
            (self.folder / "modules" / shared).unlink(missing_ok=True)
            (self.folder / "modules" / shared).symlink_to(f"/usr/share/ceph/mgr/{shared}")
        # All keys go into the monitor's first keyring: no client has to ask for them one by one.
        first = self.folder / "monitor.keyring"
        self.run("ceph-authtool", "--create-keyring", str(first), "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for name, caps in CAPS.items():
            keyring = self._keyring(name)
            words = [word for cap in caps.items() for word in ("--cap", *cap)]
            self.run("ceph-authtool", "--create-keyring", str(keyring), "--gen-key", "-n", name, *words)
            self.run("ceph-authtool", str(first), "--import-keyring", str(keyring))
        monmap = str(self.folder / "monmap")
        addresses = f"[v2:{self.address}:3300,v1:{self.address}:6789]"
        self.run("monmaptool", "--create", "--clobber", "--addv", "a", addresses, "--fsid", number, monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", str(first))

    def _keyring(self, name: str) -> Path:
        kind, _, rest = name.partition(".")
        if kind != "client":
            return self.folder / name / "keyring"
        return self.keyring if rest == CLIENT else self.folder / f"{rest}.keyring"

    def _configuration(self, number: str) -> str:
        folder, address = self.folder, self.address
        options: dict[str, Any] = {
            "fsid": number,
            "mon_host": f"[v2:{address}:3300,v1:{address}:6789]",
            "public_addr": address,
            "cluster_addr": address,
            "keyring": folder / "admin.keyring",
            "run_dir": folder / "run",
            "admin_socket": folder / "run" / "$name.$pid.asok",
            "log_file": folder / "log" / "$name.log",
            "mon_cluster_log_file": folder / "log" / "cluster.log",
            "crash_dir": folder / "crash",
            "mon_data": folder / "$name",
            "mgr_data": folder / "$name",
            "osd_data": folder / "$name",
            "mgr_module_path": folder / "modules",
            "bluestore_block_size": self.size,
            "bluestore_cache_autotune": "false",
            "bluestore_cache_size": "64M",
            "osd_pool_default_size": 1,
            "osd_pool_default_min_size": 1,
            "osd_pool_default_pg_autoscale_mode": "off",
            "osd_crush_chooseleaf_type": 0,
            "mon_allow_pool_size_one": "true",
            "mon_warn_on_pool_no_redundancy": "false",
            "mon_data_avail_warn": 2,
            "mon_data_avail_crit": 1,
            "auth_allow_insecure_global_id_reclaim": "false",
            "paxos_propose_interval": 0.1,  # s; with the default each snapshot waits for up to a second
        }
        if self.secure:
            options |= {f"ms_{part}_mode": "secure" for part in ("cluster", "service", "mon_cluster", "mon_service")}
        lines = [f"{name} = {value}" for name, value in options.items()]
        own = [f"[{kind}]\nkeyring = {folder}/$name/keyring" for kind in ("mon", "mgr", "osd")]
        client = f"[client.{CLIENT}]\nkeyring = {self.keyring}"
        return "\n".join(["[global]", *lines, *own, client, ""])

    def run(self, program: str, *arguments: str) -> str:
        """Run one of Ceph's programs as the administrator, and return its output. Raises CephError."""
        command = [program, "-c", str(self.conf), *arguments]
        if program in ("ceph-authtool", "monmaptool"):
            command = [program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_WITHIN, env=_environment())
        if done.returncode != 0:
            raise CephError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def wait_until_measured(self, pool: str) -> None:
        """Wait until the cluster reports the size of a pool, a few seconds after its creation. Raises CephError."""
        deadline = time.monotonic() + START_WITHIN
        while pool not in [each["name"] for each in json.loads(self.run("ceph", "df", "--format", "json"))["pools"]]:
            if time.monotonic() > deadline:
                raise CephError(f"the pool {pool} is not measured")
            time.sleep(0.2)

    def start_daemon(self, name: str) -> None:
        """Start one of ``DAEMONS``, unless it is running. It ends with the thread that has started it."""
        if name in self._processes and self._processes[name].poll() is None:
            return
        kind, _, number = name.partition(".")
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [f"ceph-{kind}", "-c", str(self.conf), "-i", number, "-f"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        (self.folder / f"{name}.pid").write_text(f"{self._processes[name].pid}\n")

    def ended(self) -> list[str]:
        """Return the daemons that have crashed or were killed."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def stop(self, *, keep: bool) -> None:
        """Stop all daemons; with ``keep`` the files are not removed."""
        for name in reversed(DAEMONS):
            process = self._processes.pop(name, None)
            if process is None:
                continue
            process.send_signal(signal.SIGTERM if keep else signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
                continue
            process.kill()
            process.wait()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def _end_with_parent() -> None:
    """Called between fork and exec: requests SIGKILL when the parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def main(arguments: Sequence[str]) -> str | None:
    """Run a cluster until this process is interrupted or ended. Returns an error message, or None."""
    if len(arguments) != 2:
        return "usage: python3 tools/ceph.py FOLDER ADDRESS"
    folder = Path(arguments[0]).absolute()
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    cluster = Cluster(folder, arguments[1])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster.start()
        print(f"Ceph runs. A host's pool of it: ceph=rbd:{POOL}?conf={cluster.conf}&id={CLIENT}", flush=True)
        signal.pause()
    except CephError as error:
        return str(error)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop(keep=True)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
