"""The settings of libvirt's embedded QEMU driver (``qemu.conf``), written by the agent."""

import logging
import os
from pathlib import Path

from compute_agent.virt.libvirt.account import Account

log = logging.getLogger(__name__)

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = {"cpu": "cpu", "cpuset": "cpuset", "io": "blkio", "memory": "memory"}
"""libvirt's names for the controllers of cgroup v2."""


def render(account: Account, controllers: list[str], certificates: Path) -> str:
    """Return the settings: QEMU under ``account`` with a system call filter, and no features that need a daemon.

    ``certificates`` is the directory of client certificates for volumes of other hosts; only disks that require TLS use
    it. The agent sets the owner of files itself, because libvirt would also change the owner of the shared images.
    """
    listed = ", ".join(f'"{name}"' for name in controllers)
    return f"""\
# Written by Novella's agent for libvirt's embedded driver.
user = "+{account.uid}"
group = "+{account.gid}"
dynamic_ownership = 0
remember_owner = 0
seccomp_sandbox = 1
security_driver = "none"
namespaces = [ ]
cgroup_controllers = [ {listed} ]
stdio_handler = "file"
nbd_tls = 0
nbd_tls_x509_cert_dir = "{certificates}"
"""


def controllers(root: Path = CGROUPS) -> list[str]:
    """Return libvirt's names of the cgroup controllers available for guests; none without cgroup v2.

    Only controllers that are already enabled for children of the root count: in a container the root contains
    processes, so no other controllers can be enabled.
    """
    try:
        handed_down = (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        handed_down = []
    result = sorted(CONTROLLERS[name] for name in handed_down if name in CONTROLLERS)
    if result and os.access(root / "cgroup.subtree_control", os.W_OK):
        log.info("Each guest has a control group of its own: %s.", ", ".join(result))
        return result
    log.info("Guests share the host's processors and memory without control groups: there is no writable cgroup v2.")
    return []


def controllers_of_libvirtd(root: Path = CGROUPS) -> list[str]:
    """Return libvirt's names of the controllers that a system libvirtd can use: those of cgroup v2, or the separately
    mounted ones of cgroup v1.
    """
    try:
        found = (root / "cgroup.controllers").read_text().split()
    except OSError:
        return sorted(name for name in CONTROLLERS.values() if (root / name).is_dir())
    return sorted(CONTROLLERS[name] for name in found if name in CONTROLLERS)
