"""Detects whether KVM works, and hides from libvirt a KVM that does not work.

If ``/dev/kvm`` can be opened but cannot run a guest, libvirt probes it at every start, for up to a minute. An empty
regular file, bound read-only over it in the agent's own mount namespace, makes libvirt use emulation immediately.
"""

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt import account, own_daemon, private_mounts
from compute_agent.virt.libvirt.domain_xml import VirtType
from compute_agent.virt.libvirt.paths import HostPaths
from compute_agent.virt.processes.programs import SYSTEM_PATH

log = logging.getLogger(__name__)

DEVICE = Path("/dev/kvm")
EMULATOR = "qemu-system-x86_64"
PROBE_SECONDS = 5.0
PROBE_EXIT = 33
# 16-bit code of a boot sector: mov dx, 0x501; mov al, 0x10; out dx, al; hlt.  The exit device makes 33 of 0x10.
BOOT_SECTOR = bytes.fromhex("ba0105b010eef4ebfd").ljust(510, b"\0") + b"\x55\xaa"


def prepare(settings: AgentSettings) -> VirtType:
    """Choose between KVM and emulation, and prepare the machine for libvirt.

    For a libvirt that the agent starts, an unusable KVM is hidden, libvirt's account is added if the machine lacks it,
    and the guests' account gets access to guests' directories. A daemon of the agent also gets its directories. Call it
    once, before the process has threads and after its network namespace exists: later mounts stay in the private mount
    namespace. If the agent may not mount, guests start slowly or not at all, and run as root. Raises ValueError if the
    configured account does not exist.
    """
    virt_type = choose(settings.virt_type)
    if not settings.own_libvirt:
        return virt_type
    chosen = account.choose(settings, virt_type)
    paths = HostPaths(settings.state_dir.absolute(), chosen)
    covered, places = private_mounts.account_files(), []
    if not chosen.is_root:
        os.umask(
            0o022
        )  # libvirt creates directories that QEMU must enter; the mode of the state directory protects them
        places = paths.mount_points()
    if virt_type == "qemu" and DEVICE.exists() and not DEVICE.is_file():
        covered[DEVICE] = b""
    daemon = settings.libvirt_uri == "daemon"
    if covered or places or daemon:
        try:
            private_mounts.unshare()
            for path, content in covered.items():
                private_mounts.cover(path, content, paths.covers / path.name)
            for folder, place in places:
                private_mounts.bind(folder, place)
            if daemon:
                paths.prepare()
                own_daemon.mount(paths.libvirt_root)
        except OSError as error:
            log.warning("libvirt sees the machine as it is, and guests run as root: %s", error)
    return virt_type


def choose(configured: str) -> VirtType:
    """Return ``kvm`` or ``qemu``: the configured value, or for ``auto`` the result of a probe."""
    if configured == "kvm":
        return "kvm"
    if configured != "auto":
        return "qemu"
    if not os.access(DEVICE, os.R_OK | os.W_OK) or not _processor_virtualises():
        return "qemu"
    return "kvm" if probe("kvm") else "qemu"


def probe(accelerator: str) -> bool:
    """Boot a guest from a disk of one sector with ``accelerator``; return whether it ran."""
    emulator = shutil.which(EMULATOR, path=SYSTEM_PATH)
    if emulator is None:
        return False
    with tempfile.NamedTemporaryFile(suffix=".img") as disk:
        disk.write(BOOT_SECTOR)
        disk.flush()
        command = [emulator, "-accel", accelerator, "-machine", "pc", "-m", "16", "-nodefaults", "-display", "none"]
        command += ["-device", "isa-debug-exit,iobase=0x501,iosize=1", "-no-user-config"]
        command += ["-drive", f"file={disk.name},format=raw,if=ide,readonly=off"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == PROBE_EXIT


def _processor_virtualises() -> bool:
    words = Path("/proc/cpuinfo").read_text(errors="replace").split()
    return "vmx" in words or "svm" in words
