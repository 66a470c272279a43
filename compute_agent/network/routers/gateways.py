"""Translates the MAC addresses of routers in frames between hosts.

A router has the same MAC address on all hosts. In frames to another host, this host's alias replaces that address as
the source. Frames to this host's alias are for the router on this host. An ARP request of the router for an unknown
address is sent as an ARP probe (RFC 5227), so that no host learns a wrong location of the router. Other ARP messages,
neighbour discovery and router advertisements of a router are not sent to other hosts. DHCP servers also have the same
MAC address on all hosts; none of their frames is sent to another host.
"""

from collections.abc import Iterable

from compute_agent.contract.network import NetworkDocument
from compute_agent.network.bridges.segments import alias, port_of
from compute_agent.network.kernel.links import interface_name
from compute_agent.network.kernel.names import service_mac
from compute_agent.network.routers.words import mac_address, nft_map, nft_set, replaced

TABLE = "novella_gateways"
NOTHING = "".join(f"{line}\n" for line in replaced("bridge", TABLE))
"""The ruleset that removes the table."""


def ruleset(networks: Iterable[NetworkDocument], underlay: str) -> str:
    """Render the table for networks between hosts. ``underlay`` is this host's own underlay address.

    Raises ValueError for an invalid address.
    """
    out, back, shared = {}, {}, []
    for network in networks:
        port = f'"{interface_name(port_of(network.segment, network.id))}"'
        for mac in map(mac_address, network.shared_macs):
            out[f"{port} . {mac}"] = alias(mac, underlay)
            back[f"{port} . {alias(mac, underlay)}"] = mac
            shared.append(f"{port} . {mac}")
        shared.append(f"{port} . {mac_address(service_mac(network))}")
    return "\n".join(
        [
            *replaced("bridge", TABLE),
            f"table bridge {TABLE} {{",
            *nft_map("out", "ifname . ether_addr : ether_addr", out),
            *nft_map("back", "ifname . ether_addr : ether_addr", back),
            *nft_set("shared", "ifname . ether_addr", shared),
            "  chain arriving {",
            "    type filter hook prerouting priority -310; policy accept;",
            "    iifname . ether saddr @shared drop",
            "    ether daddr set iifname . ether daddr map @back",
            "  }",
            "  chain leaving {",
            "    type filter hook postrouting priority 300; policy accept;",
            "    oifname . ether saddr != @shared accept",
            "    oifname . ether saddr @shared ether type arp arp operation != request drop",
            "    icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } drop",
            "    ether type arp arp saddr ip set 0.0.0.0 arp saddr ether set oifname . ether saddr map @out",
            "    ether saddr set oifname . ether saddr map @out accept",
            "    drop",
            "  }",
            "}",
            "",
        ]
    )
