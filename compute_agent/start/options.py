"""The command line and environment of ``novella-agent``, which is also ``python -m compute_agent``."""

import argparse
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from compute_agent.settings import CONNECTED, NETWORKS_BY_NAME, AgentSettings, agent_version
from compute_agent.virt.fake.faults import FaultPoint
from compute_agent.volumes import drivers

ENVIRONMENT = "NOVELLA_AGENT_"
MAX_SIMULATED = 1_000
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
_TRAIT = re.compile(r"[A-Z][A-Z0-9_]{0,254}")
_MACHINE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NO_POOL = "none"
ROOT_DISK_DRIVERS = ("dir", "rbd")
"""The drivers for pools of root disks: other hosts can open a disk, but never together with the failed host."""
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_EPILOG = """Every option can also be given in the environment: --state-dir as NOVELLA_AGENT_STATE_DIR, and so on.
Exit codes: 0 stopped, 1 failed, 2 wrong settings, 3 the state folder is in use, 4 the machine lacks what the driver
needs."""


@dataclass(frozen=True)
class Options:
    """The action, and the settings of every host of this process."""

    action: str
    """``run`` or ``clean``."""
    state_dir: Path
    hosts: tuple[AgentSettings, ...]
    log_level: str


def parse(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> Options:
    """Parse the command line (None: the process's) and the environment. Exits with code 2 and a message for an invalid
    value.
    """
    parser = _parser(environ)
    arguments = parser.parse_args(argv)
    try:
        return _options(arguments)
    except ValueError as error:
        parser.error(str(error))


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    def default(name: str, fallback: str | None = None) -> str | None:
        return environ.get(ENVIRONMENT + name) or fallback

    parser = argparse.ArgumentParser(
        prog="novella-agent",
        description="Novella's agent: adds this machine, or simulated hosts, to the cloud.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"novella-agent {agent_version() or 'from a checkout'}")
    add("action", nargs="?", choices=("run", "clean"), default="run", help="clean: remove what this agent created")
    add("--host", default=default("HOST", socket.gethostname()), help="the host's name in the cloud")
    add("--state-dir", type=Path, default=default("STATE_DIR"), help="the agent's state folder (required)")
    add("--portal", default=default("PORTAL", "http://127.0.0.1:8000"), metavar="URL", help="the portal's address")
    allowed = default("PLAIN_HTTP") == "1"
    add("--plain-http", action="store_true", default=allowed, help="connect to a remote portal without TLS")
    add("--driver", default=default("DRIVER", "libvirt"), help="libvirt, fake or fake:STEP[:retryable|:fatal|:hang]")
    add("--libvirt-uri", default=default("LIBVIRT_URI", "embed"), help="embed, daemon, or a libvirt URI")
    add("--virt-type", choices=("auto", "kvm", "qemu"), default=default("VIRT_TYPE", "auto"))
    add("--netns", default=default("NETNS"), metavar="NAME", help="network namespace for bridges and guests")
    add("--machine-netns", default=default("MACHINE_NETNS"), metavar="NAME",
        help="network namespace used as the machine's (several hosts on one)")  # fmt: skip
    add(
        "--no-uplink",
        action="store_true",
        default=default("NO_UPLINK") == "1",
        help="disable external access of guests",
    )
    add("--guest-user", default=default("GUEST_USER", "auto"), metavar="USER", help="account of guests' QEMU (embed)")
    add("--dhcp-user", default=default("DHCP_USER", "auto"), metavar="USER", help="account of dnsmasq")
    add("--storage-user", default=default("STORAGE_USER", "auto"), metavar="USER", help="account of storage daemons")
    add("--vendor-data", default=default("VENDOR_DATA"), metavar="FILE", help="JSON for every guest's vendor data")
    add("--no-cgroups", action="store_true", default=default("NO_CGROUPS") == "1", help="no control groups for guests")
    words = f"{CONNECTED}, {', '.join(NETWORKS_BY_NAME)} or CIDRs, with commas"
    add("--blocked-networks", default=default("BLOCKED_NETWORKS", f"link-local,{CONNECTED}"), metavar="LIST",
        help=f"networks that guests cannot reach: {words}")  # fmt: skip
    add("--reachable-networks", default=default("REACHABLE_NETWORKS", "none"), metavar="LIST",
        help="parts of the blocked networks that they can reach")  # fmt: skip
    add("--underlay-address", default=default("UNDERLAY_ADDRESS", ""), metavar="ADDRESS",
        help="this host's address for other hosts (default: the address that faces the portal)")  # fmt: skip
    add("--volume-pool", action="append", metavar="NAME=DRIVER:LOCATION",
        help="a pool of volumes: nbd:FOLDER, dir:FOLDER, rbd:POOL…; repeat it for more (default: local=nbd: the state"
        " folder's volumes; none: no pool; NOVELLA_AGENT_VOLUME_POOL: several with spaces)")  # fmt: skip
    parser.set_defaults(volume_pool_environment=default("VOLUME_POOL", ""))
    add("--root-disks", default=default("ROOT_DISKS", ""), metavar="POOL",
        help="the pool of --volume-pool, rbd or dir, with guests' root disks (default: files here)")  # fmt: skip
    add("--volume-ports", default=default("VOLUME_PORTS", "10809-11832"), metavar="FIRST-LAST",
        help="TCP ports at which other hosts reach the volumes of this one, and send guests")  # fmt: skip
    add("--physical-networks", default=default("PHYSICAL_NETWORKS", ""), metavar="NAME:INTERFACE,...",
        help="interfaces or bridges of the physical networks of flat and VLAN networks")  # fmt: skip
    add("--external-interface", default=default("EXTERNAL_INTERFACE", ""), metavar="INTERFACE",
        help="allow this interface's network to reach floating IPs of the physical network `machine`")  # fmt: skip
    add("--workers", default=default("WORKERS", "4"), help="builds and copies at the same time")
    add("--tunnels", default=default("TUNNELS", "256"), help="connections of `novella ssh` and other tunnels at a time")
    add("--join-token", default=default("JOIN_TOKEN"), help="one-time token of a new host (ps shows it: prefer a file)")
    add("--join-token-file", type=Path, default=default("JOIN_TOKEN_FILE"), help="a token, or JSON of tokens by host")
    add("--machine-id", default=default("MACHINE_ID", ""), help="unique id of this machine (default: detected)")
    add("--simulate", default=default("SIMULATE"), metavar="N", help="be N simulated hosts, HOST-1 to HOST-N")
    _add_simulation(add, default)
    add("--log-level", choices=("debug", "info", "warning", "error"), default=default("LOG_LEVEL", "info"))
    return parser


def _add_simulation(add: Callable[..., object], default: Callable[..., str | None]) -> None:
    """Add the options of simulated hosts."""
    add("--fake-capacity", default=default("FAKE_CAPACITY", "32:65536:1000"), metavar="VCPUS:MIB:GIB")
    add("--fake-traits", default=default("FAKE_TRAITS", "all"), metavar="NAME,...",
        help="the traits of simulated hosts, or all, or none")  # fmt: skip
    add("--fake-move-seconds", default=default("FAKE_MOVE_SECONDS", "0"), metavar="SECONDS",
        help="how long simulated hosts take to move a guest")  # fmt: skip


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.state_dir is None:
        raise ValueError("--state-dir is missing: specify the agent's state folder")
    driver = arguments.driver
    if arguments.simulate is not None and driver == "libvirt":
        driver = "fake"
    one = AgentSettings(
        host=_checked(_HOST_NAME, arguments.host, "--host"),
        state_dir=Path(arguments.state_dir).absolute(),
        portal_url=_portal(arguments.portal, plain_http=arguments.plain_http),
        driver=_driver(driver),
        libvirt_uri=arguments.libvirt_uri,
        virt_type=arguments.virt_type,
        netns=_checked(_NAMESPACE, arguments.netns, "--netns") if arguments.netns else None,
        machine_netns=_checked(_NAMESPACE, arguments.machine_netns, "--machine-netns")
        if arguments.machine_netns
        else None,
        uplink=not arguments.no_uplink,
        guest_user=arguments.guest_user,
        dhcp_user=arguments.dhcp_user,
        storage_user=arguments.storage_user,
        vendor_data=Path(arguments.vendor_data).absolute() if arguments.vendor_data else None,
        cgroups=not arguments.no_cgroups,
        blocked_networks=_networks(arguments.blocked_networks, "--blocked-networks"),
        reachable_networks=_networks(arguments.reachable_networks, "--reachable-networks"),
        underlay_address=_address(arguments.underlay_address, "--underlay-address"),
        volume_pools=_pools(arguments.volume_pool or arguments.volume_pool_environment.split()),
        root_disks=arguments.root_disks,
        volume_ports=_ports(arguments.volume_ports, "--volume-ports"),
        physical_networks=_physical_networks(arguments.physical_networks),
        external_interface=_checked(_INTERFACE, arguments.external_interface, "--external-interface")
        if arguments.external_interface
        else "",
        workers=_number(arguments.workers, "--workers", 64),
        tunnels=_number(arguments.tunnels, "--tunnels", 65_536),
        join_token=arguments.join_token,
        join_token_file=Path(arguments.join_token_file).absolute() if arguments.join_token_file else None,
        fake_capacity=_capacity(arguments.fake_capacity),
        fake_traits=_traits(arguments.fake_traits),
        fake_move_seconds=_number(arguments.fake_move_seconds, "--fake-move-seconds", 3_600, least=0),
        machine_id=_checked(_MACHINE, arguments.machine_id, "--machine-id") if arguments.machine_id else "",
    )
    if one.machine_netns is not None and one.netns is None:
        raise ValueError("--machine-netns requires --netns: guests' networks need their own namespace")
    if not one.volume_pools:
        one = replace(one, volume_pools={"local": f"{'fake' if one.simulated else 'nbd'}:"})
    one = replace(one, volume_pools={name: pool for name, pool in one.volume_pools.items() if pool != NO_POOL})
    _check_root_disks(one)
    hosts: tuple[AgentSettings, ...] = (replace(one, durable=not one.simulated),)
    if arguments.simulate is not None:
        hosts = _simulated(one, _number(arguments.simulate, "--simulate", MAX_SIMULATED))
    return Options(arguments.action, one.state_dir, hosts, arguments.log_level)


def _simulated(one: AgentSettings, count: int) -> tuple[AgentSettings, ...]:
    if not one.simulated:
        raise ValueError("--simulate works with the fake driver only")
    names = [f"{one.host}-{number}" for number in range(1, count + 1)]
    return tuple(replace(one, host=name, state_dir=one.state_dir / name, durable=False) for name in names)


def _checked(pattern: re.Pattern[str], value: str, option: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{option} {value!r} is not a name (letters, digits, '.', '_' and '-')")
    return value


def _portal(value: str, *, plain_http: bool) -> str:
    url = urlsplit(value)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError(f"--portal {value!r} is not an address like http://127.0.0.1:8000")
    if url.scheme == "http" and not plain_http and not _is_this_machine(url.hostname):
        raise ValueError(
            f"--portal {value!r} is another machine without TLS: an attacker on the network could read passwords and"
            " disks, and control this host as root. Use https://, or --plain-http (NOVELLA_AGENT_PLAIN_HTTP=1) on an"
            " isolated network"
        )
    return value.rstrip("/")


def _is_this_machine(name: str) -> bool:
    """Return whether a host name or address is a loopback address. The name is not resolved."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _networks(value: str, option: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in value.split(","))
    for word in words:
        if word == CONNECTED or word in NETWORKS_BY_NAME:
            continue
        try:
            ipaddress.ip_network(word)
        except ValueError as error:
            raise ValueError(f"{option} {word!r} is neither a network like 10.0.0.0/8 nor a known word") from error
    return words


def _address(value: str, option: str) -> str:
    try:
        return str(ipaddress.ip_address(value)) if value else ""
    except ValueError as error:
        raise ValueError(f"{option} {value!r} is not an IP address") from error


def _pools(values: Sequence[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for value in values:
        name, _, pool = value.partition("=")
        if value == NO_POOL:
            name, pool = NO_POOL, NO_POOL
        elif not _POOL.fullmatch(name) or pool.partition(":")[0] not in drivers.names() or ":" not in pool:
            raise ValueError(
                f"--volume-pool {value!r} is not NAME=DRIVER:LOCATION, like local=nbd:/srv/volumes; the drivers are"
                f" {', '.join(drivers.names())}"
            )
        if name in result:
            raise ValueError(f"--volume-pool names {name!r} twice")
        result[name] = pool
    return result


def _check_root_disks(settings: AgentSettings) -> None:
    name, pools = settings.root_disks, settings.volume_pools
    if not name:
        return
    if name not in pools:
        raise ValueError(f"--root-disks {name!r} is not a pool of --volume-pool: {', '.join(pools) or 'none'}")
    if pools[name].partition(":")[0] not in ROOT_DISK_DRIVERS or settings.simulated:
        needed = "a pool of Ceph (rbd) or in a shared folder (dir), and a real host"
        raise ValueError(f"--root-disks {name!r}: root disks require {needed}")


def _ports(value: str, option: str) -> tuple[int, int]:
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= 65_535):
        raise ValueError(f"{option} {value!r} is not FIRST-LAST, two ports from 1024 to 65535, like 10809-11832")
    return int(first), int(last)


def _physical_networks(value: str) -> dict[str, str]:
    result = {}
    for pair in filter(None, (word.strip() for word in value.split(","))):
        name, _, interface = pair.partition(":")
        if not name or not _INTERFACE.fullmatch(interface):
            raise ValueError(f"--physical-networks {pair!r} is not NAME:INTERFACE, like lan:br0")
        result[name] = interface
    return result


def _driver(value: str) -> str:
    name, _, fault = value.partition(":")
    if name not in {"libvirt", "fake"} or (name == "libvirt" and fault):
        raise ValueError(f"--driver {value!r} is neither libvirt nor fake")
    fault_point(value)
    return value


def fault_point(driver: str) -> FaultPoint | None:
    """Return the fault of a driver ``fake:STEP[:KIND]``; None for others.  Raises ValueError for an unknown step or
    kind.
    """
    _, _, fault = driver.partition(":")
    if not fault:
        return None
    step, _, kind = fault.partition(":")
    return FaultPoint(step, kind or "retryable")


def _number(value: str, option: str, most: int, least: int = 1) -> int:
    if not value.isdecimal() or not least <= int(value) <= most:
        raise ValueError(f"{option} {value!r} is not a number from {least} to {most}")
    return int(value)


def _capacity(value: str) -> tuple[int, int, int]:
    parts = value.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"--fake-capacity {value!r} is not VCPUS:MIB:GIB, like 32:65536:1000")
    vcpus, memory_mb, disk_gb = (int(part) for part in parts)
    return vcpus, memory_mb, disk_gb


def _traits(value: str) -> tuple[str, ...] | None:
    if value == "all":
        return None
    names = () if value == "none" else tuple(sorted({name.strip() for name in value.split(",")}))
    for name in names:
        if not _TRAIT.fullmatch(name):
            raise ValueError(f"--fake-traits: {name!r} is not a trait, like COMPUTE_FIRMWARE_UEFI")
    return names
