"""What an agent must know before it starts; read once from the command line and the environment by
``compute_agent.start.options``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CONNECTED = "connected"
"""Stands for the networks of the machine's own interfaces."""
NETWORKS_BY_NAME = {
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "none": (),
}
"""Words for networks (RFC 3927 and 4291, RFC 1918 and 4193)."""
DISTRIBUTION = "novella-cloud"
"""The installed package's name.  "novella" belongs to somebody else on PyPI."""


def agent_version() -> str:
    """Return the version of the installed package, empty in a bare checkout."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class AgentSettings:
    """One host's settings.  Times in seconds."""

    host: str
    """The host's name in the cloud."""
    state_dir: Path
    """Everything this agent keeps: credential, outbox, instances, image cache, libvirt root.  Mode 0700."""
    portal_url: str = "http://127.0.0.1:8000"
    driver: str = "libvirt"
    """``libvirt``, ``fake``, or ``fake:STEP[:retryable|:fatal|:hang]``: a cousin of the fake driver that fails at STEP.
    """
    libvirt_uri: str = "embed"
    """``embed``: QEMU driven from inside this process; else any libvirt URI, e.g. ``qemu:///system``."""
    virt_type: str = "auto"
    """``kvm``, ``qemu``, or ``auto``: KVM when a probe shows that it works."""
    netns: str | None = None
    """Network namespace for bridges, DHCP, filters and guests; None: the one the agent was started in."""
    machine_netns: str | None = None
    """Network namespace that stands for the machine, with its underlay and its physical networks, where several hosts
    are on one machine; None: the one the agent was started in.  The portal is reached from the latter."""
    uplink: bool = True
    """Give guests a way out of ``netns`` through a veth pair and NAT."""
    blocked_networks: tuple[str, ...] = ("link-local", CONNECTED)
    """Where guests' packets are dropped on their way out: networks, or words for some."""
    reachable_networks: tuple[str, ...] = ()
    """Parts of the blocked networks that guests reach nevertheless, for example an inner name server."""
    underlay_address: str = ""
    """Where other hosts reach this one with guests' packets; empty: the address that faces the portal."""
    volume_pools: Mapping[str, str] = field(default_factory=dict)
    """Name of each pool of volumes → ``DRIVER:LOCATION``; none: no volume lies on this host."""
    root_disks: str = ""
    """The pool of ``volume_pools`` in which guests have their root disks; empty: they are files of this host."""
    volume_ports: tuple[int, int] = (10809, 11832)
    """The first and the last TCP port at which storage daemons export volumes to other hosts."""
    physical_networks: Mapping[str, str] = field(default_factory=dict)
    """Name of each physical network → interface or bridge of the machine that leads to it."""
    external_interface: str = ""
    """The machine's interface whose network reaches floating IPs of the physical network ``machine``; empty: none."""
    workers: int = 4
    """Builds and copies of disks at the same time; one project has at most all but one of them."""
    tunnels: int = 256
    """Connections to guests' ports that are carried to the portal at the same time; one user has a quarter of them."""
    guest_user: str = "auto"
    """The account of guests' QEMU processes under ``embed``; ``auto``: one that is made for them, else root."""
    dhcp_user: str = "auto"
    """The account of dnsmasq; ``auto``: one that is made for it, else the distribution's, else nobody."""
    storage_user: str = "auto"
    """The account of storage daemons; ``auto``: one that is made for them, else root."""
    vendor_data: Path | None = None
    """A JSON file that every guest of this host finds as ``vendor_data.json``."""
    cgroups: bool = True
    """Give each guest a control group of its own where the machine lets one."""
    boot_timeout: float = 60.0
    machine_id: str = ""
    """Tells this machine from others; empty: what ``compute_agent.link.machine_id`` finds when the agent starts."""
    join_token: str | None = None
    join_token_file: Path | None = None
    """A file with the token alone, or a JSON object of tokens by host name; read when a token is needed."""
    fake_capacity: tuple[int, int, int] = (32, 65_536, 1_000)
    """What a simulated host has: vCPUs, MiB of memory, GiB of disk."""
    fake_traits: tuple[str, ...] | None = None
    """Traits of a simulated host; None: all that hardware of guests can need."""
    durable: bool = True
    """Commands and their ends are on the disk (fsync) before they are acknowledged.  Simulated hosts do without."""

    @property
    def simulated(self) -> bool:
        """Return whether the hypervisor is the fake one."""
        return self.driver.partition(":")[0] == "fake"
