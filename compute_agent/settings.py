"""Settings of an agent, read once from the command line and the environment by ``compute_agent.start.options``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CONNECTED = "connected"
"""The word in ``--blocked-networks`` for the networks of the machine's own interfaces."""
NETWORKS_BY_NAME = {
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "none": (),
}
"""Names of networks (RFC 3927 and 4291, RFC 1918 and 4193)."""
DISTRIBUTION = "novella-cloud"
"""The installed package's name.  On PyPI, "novella" is another project."""


def agent_version() -> str:
    """Return the version of the installed package; empty in a checkout that is not installed."""
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
    """The folder of the agent's state: credential, outbox, instances, image cache, libvirt root.  Mode 0700."""
    portal_url: str = "http://127.0.0.1:8000"
    driver: str = "libvirt"
    """``libvirt``, ``fake``, or ``fake:STEP[:retryable|:fatal|:hang]``: the fake driver with a failure at STEP."""
    libvirt_uri: str = "embed"
    """``embed``: QEMU driven from inside this process; ``daemon``: a libvirt daemon of the agent's own with the same
    guests, which can also receive running guests; else any libvirt URI, e.g. ``qemu:///system``.
    """
    virt_type: str = "auto"
    """``kvm``, ``qemu``, or ``auto``: KVM if a probe succeeds."""
    netns: str | None = None
    """Network namespace for bridges, DHCP, filters and guests; None: the namespace in which the agent was started."""
    machine_netns: str | None = None
    """Network namespace that is used like the machine's namespace, with underlay and physical networks, if several
    hosts share a machine; None: the namespace in which the agent was started. The agent always connects to the portal
    from the namespace in which it was started.
    """
    uplink: bool = True
    """Give guests external access from ``netns`` through a veth pair and NAT."""
    blocked_networks: tuple[str, ...] = ("link-local", CONNECTED)
    """Destinations to which guests' packets are dropped: networks, or names of networks."""
    reachable_networks: tuple[str, ...] = ()
    """Parts of the blocked networks that guests can reach, for example an internal name server."""
    underlay_address: str = ""
    """This host's address for guests' packets from other hosts; empty: the address that faces the portal."""
    volume_pools: Mapping[str, str] = field(default_factory=dict)
    """Name of each volume pool → ``DRIVER:LOCATION``; none: this host stores no volumes."""
    root_disks: str = ""
    """The pool of ``volume_pools`` with guests' root disks; empty: root disks are files of this host."""
    volume_ports: tuple[int, int] = (10809, 11832)
    """The first and the last TCP port for volumes that are exported to other hosts, and for guests that other hosts
    send.
    """
    physical_networks: Mapping[str, str] = field(default_factory=dict)
    """Name of each physical network → interface or bridge of the machine that is connected to it."""
    external_interface: str = ""
    """The interface whose network can reach floating IPs of the physical network ``machine``; empty: none."""
    workers: int = 4
    """Builds and copies of disks at the same time; one project can use all but one of them."""
    tunnels: int = 256
    """Tunnels to guests' ports at the same time; one user can use a quarter of them."""
    guest_user: str = "auto"
    """The account of guests' QEMU processes under ``embed``; ``auto``: a dedicated account if it exists, else root."""
    dhcp_user: str = "auto"
    """The account of dnsmasq; ``auto``: a dedicated account if it exists, else the distribution's, else dnsmasq's
    default.
    """
    storage_user: str = "auto"
    """The account of storage daemons; ``auto``: a dedicated account if it exists, else root."""
    vendor_data: Path | None = None
    """A JSON file that every guest of this host gets as ``vendor_data.json``."""
    cgroups: bool = True
    """Create a control group for each guest if the machine allows it."""
    boot_timeout: float = 60.0
    machine_id: str = ""
    """Identifies this machine; empty: the value of ``compute_agent.link.credential`` at the start."""
    join_token: str | None = None
    join_token_file: Path | None = None
    """A file with the token alone, or a JSON object of tokens by host name; read when a token is needed."""
    fake_capacity: tuple[int, int, int] = (32, 65_536, 1_000)
    """The resources of a simulated host: vCPUs, MiB of memory, GiB of disk."""
    fake_traits: tuple[str, ...] | None = None
    """Traits of a simulated host; None: all traits that guests' hardware can require."""
    fake_move_seconds: int = 0
    """Seconds that a simulated host takes to send a running guest, or to copy the disks of a stopped guest."""
    durable: bool = True
    """Sync commands to disk before they are acknowledged, and their ends before they are reported. Not used by
    simulated hosts.
    """

    @property
    def own_libvirt(self) -> bool:
        """Whether libvirt is the agent's own, embedded or as a daemon."""
        return self.libvirt_uri in {"embed", "daemon"}

    @property
    def simulated(self) -> bool:
        """Whether the hypervisor is the fake one."""
        return self.driver.partition(":")[0] == "fake"
