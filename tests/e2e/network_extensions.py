"""Neutron's extensions that are not offered, and what of the clients asks for them and for nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

NOTHING = r"(?!)"


@dataclass(frozen=True)
class Clients:
    """Patterns of the SDK's methods and of the command line's commands; ``NOTHING`` where there are none."""

    methods: str
    commands: str = NOTHING

    def of_sdk(self, names: set[str]) -> set[str]:
        return {name for name in names if re.search(self.methods, name)}

    def of_command_line(self, names: set[str]) -> set[str]:
        return {name for name in names if re.match(self.commands, name)}


NOT_OFFERED = {
    "bgp": Clients(r"bgp_|_speaker", r"bgp "),
    "bgpvpn": Clients(r"bgpvpn", r"bgpvpn "),
    "dhcp_agent_scheduler": Clients(
        r"_agents?_hosting_|hosting_dhcp_agents|dhcp_agent_(to|from)_network", r"network agent (add|remove) network"
    ),
    "external-gateway-multihoming": Clients(r"_external_gateways$", r"router (add|remove) gateway"),
    "flavors": Clients(r"(_|^)flavors?$|service_profiles?$|flavor_(with|from)", r"network flavor "),
    "fwaas_v2": Clients(r"firewall_|rule_(into|from)_policy", r"firewall "),
    "l3-conntrack-helper": Clients(r"conntrack_helpers?$", r"network l3 conntrack "),
    "l3-ndp-proxy": Clients(r"ndp_prox(y|ies)$", r"router ndp "),
    "l3_agent_scheduler": Clients(
        r"hosting_l3_agents|agent_hosted_routers|router_(to|in|from)_agent",
        r"network agent ((add|remove) router|router set)",
    ),
    "lbaasv2": Clients(r"(_|^)(load_balancer|listener|health_monitor|pool_member)s?$|(?<!subnet)_pool$|^pools$"),
    "local_ip": Clients(r"local_ips?(_|$)", r"local ip "),
    "metering": Clients(r"metering_", r"network meter "),
    "network-segment-range": Clients(r"network_segment_ranges?$", r"network segment range "),
    "qos": Clients(r"qos_", r"network qos "),
    "security-groups-default-statefulness": Clients(r"default_statefulness$", r"security group default statefulness "),
    "segment": Clients(r"(_|^)segments?$", r"network segment (?!range)"),
    "sfc": Clients(r"sfc_"),
    "subnet_onboard": Clients(r"^onboard_network_subnets$", r"network onboard |subnet pool add network"),
    "taas": Clients(r"tap_(flow|service)s?$", r"tap (flow|service) "),
    "tap-mirror": Clients(r"tap_mirrors?$", r"tap mirror "),
    "trunk": Clients(r"trunk", r"network (trunk|subport) "),
    "vpnaas": Clients(r"(_|^)vpn_", r"vpn "),
}
"""By Neutron's aliases."""
