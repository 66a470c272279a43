"""Names of this host's kernel objects: namespaces and interfaces."""

import hashlib
import ipaddress

from compute_agent.contract.network import NetworkDocument

SERVICE, ROUTER, EXTERNAL = "n", "r", "x"
KINDS = (SERVICE, ROUTER, EXTERNAL)
"""Kinds of namespaces: a network's services, a router, an external network."""
NOBODYS = "novella"
"""The first part of namespaces' names if the agent has no namespace of its own."""
INSIDE = "eth0"
"""The interface of a service namespace that is connected to the network's bridge."""


def namespace_name(agent: str | None, kind: str, subject_id: str) -> str:
    """Return the namespace of a subject; ``agent`` is the agent's own namespace, None if it has none."""
    return f"{namespace_prefix(agent, kind)}{subject_id}"


def namespace_prefix(agent: str | None, kind: str) -> str:
    """Return the common prefix of all namespaces of a kind."""
    return f"{agent or NOBODYS}-{kind}-"


def interface(prefix: str, *subjects: str) -> str:
    """Return an interface's name derived from its subjects: at most 15 characters with a ``prefix`` of 3."""
    return prefix + hashlib.sha256("/".join(subjects).encode()).hexdigest()[:12]


def service_end(network_id: str) -> str:
    """Return the bridge port that connects a network's service namespace."""
    return interface("nvs", network_id)


def service_mac(network: NetworkDocument) -> str:
    """Return the MAC address of a network's services, the same on every host."""
    return network.service.mac_address.lower() if network.service is not None else own_mac("service", network.id)


def link_local(mac: str) -> str:
    """Return the link-local address derived from a MAC address (RFC 4291, appendix A)."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    suffix = bytes([first ^ 2, *rest[:2], 0xFF, 0xFE, *rest[2:]])
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + suffix))


def own_mac(*subjects: str) -> str:
    """Return a MAC address derived from its subjects, outside the range of ports (``fa:16:3e``)."""
    digest = hashlib.sha256("/".join(subjects).encode()).digest()
    return "fa:16:3f:" + ":".join(f"{byte:02x}" for byte in digest[:3])
