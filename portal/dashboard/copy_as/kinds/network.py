"""Calls of the Network API."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from portal.dashboard.copy_as.calls import IMPLIED, POSITIONAL, Kind, attribute, edited, entries, part_of_path

NAME = attribute("name", option=POSITIONAL)
DESCRIPTION = attribute("description")
UP = attribute("admin_state_up", flags=("--enable", "--disable"), usual=True)
PORT_SECURITY = attribute(
    "port_security_enabled", flags=("--enable-port-security", "--disable-port-security"), usual=True
)


def _segment(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [values]


NETWORK = Kind(
    key="network",
    service="network",
    path="networks",
    envelope="network",
    attributes=(
        UP,
        attribute("shared", flags=("--share", "--no-share"), usual=False),
        attribute("external", body="router:external", python="is_router_external", flags=("--external", ""),
                  usual=False),
        attribute("is_default", flags=("--default", ""), terraform=None, usual=False),
        attribute("mtu"),
        PORT_SECURITY,
        attribute("network_type", body="provider:network_type", option="--provider-network-type",
                  python="provider_network_type", terraform=IMPLIED, ansible="provider_network_type"),
        attribute("physical_network", body="provider:physical_network", option="--provider-physical-network",
                  python="provider_physical_network", terraform=IMPLIED, ansible="provider_physical_network"),
        attribute("segmentation_id", body="provider:segmentation_id", option="--provider-segment",
                  python="provider_segmentation_id", terraform=IMPLIED, ansible="provider_segmentation_id"),
        attribute("segment", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform="segments", ansible=IMPLIED,
                  block=True, convert={"terraform": _segment}),
        attribute("description", ansible=None),
        NAME,
    ),
    command="network create",
    python="network.create_network",
    terraform="openstack_networking_network_v2",
    ansible="openstack.cloud.network",
    ansible_result="network",
)  # fmt: skip
NETWORK_EDIT = edited(
    NETWORK,
    "network",
    path="networks/{network}",
    command="network set",
    python="network.update_network",
    without=("network_type", "physical_network", "segmentation_id", "segment"),
    flags={"external": ("--external", "--internal"), "is_default": ("--default", "--no-default")},
)
SUBNET = Kind(
    key="subnet",
    service="network",
    path="subnets",
    envelope="subnet",
    attributes=(
        attribute("network_id", option="--network", ansible="network"),
        attribute("cidr", option="--subnet-range"),
        attribute("ip_version"),
        attribute("gateway_ip", option="--gateway"),
        attribute("no_gateway", body="gateway_ip", option="--gateway", python="gateway_ip",
                  ansible="disable_gateway_ip",
                  convert={"body": lambda _: None, "option": lambda _: "none", "python": lambda _: None}),
        attribute("enable_dhcp", flags=("--dhcp", "--no-dhcp"), usual=True),
        attribute("ipv6_ra_mode"),
        attribute("ipv6_address_mode"),
        attribute("allocation_pools", option="--allocation-pool", terraform="allocation_pool", block=True,
                  convert={"option": entries(("start", "start"), ("end", "end"))}),
        attribute("dns_nameservers", option="--dns-nameserver"),
        attribute("host_routes", option="--host-route", terraform=None,
                  convert={"option": entries(("destination", "destination"), ("nexthop", "gateway"))}),
        DESCRIPTION,
        NAME,
    ),
    command="subnet create",
    python="network.create_subnet",
    terraform="openstack_networking_subnet_v2",
    ansible="openstack.cloud.subnet",
    ansible_result="subnet",
)  # fmt: skip
SUBNET_EDIT = edited(
    SUBNET,
    "subnet",
    path="subnets/{subnet}",
    command="subnet set",
    python="network.update_subnet",
    without=("network_id", "cidr", "ip_version", "ipv6_ra_mode", "ipv6_address_mode"),
    clears={
        "allocation_pools": "--no-allocation-pool",
        "dns_nameservers": "--no-dns-nameservers",
        "host_routes": "--no-host-route",
    },
)
PORT = Kind(
    key="port",
    service="network",
    path="ports",
    envelope="port",
    attributes=(
        attribute("network_id", option="--network", ansible="network"),
        attribute("fixed_ips", option="--fixed-ip", terraform="fixed_ip", block=True,
                  convert={"option": entries(("subnet_id", "subnet"), ("ip_address", "ip-address"))}),
        attribute("mac_address"),
        attribute("security_groups", option="--security-group", terraform="security_group_ids"),
        attribute("no_security_groups", body="security_groups", option="--no-security-group", python="security_groups",
                  flags=("--no-security-group", ""),
                  convert={"body": lambda _: [], "python": lambda _: []}),
        PORT_SECURITY,
        attribute("allowed_address_pairs", option="--allowed-address", block=True,
                  convert={"option": entries(("ip_address", "ip-address"), ("mac_address", "mac-address"))}),
        attribute("extra_dhcp_opts", option="--extra-dhcp-option", terraform="extra_dhcp_option", block=True,
                  convert={
                      "option": entries(("opt_name", "name"), ("opt_value", "value"), ("ip_version", "ip-version")),
                      "terraform": lambda rows: [
                          {"name": row["opt_name"], "value": row["opt_value"], "ip_version": row["ip_version"]}
                          for row in rows
                      ],
                  }),
        UP,
        DESCRIPTION,
        NAME,
    ),
    command="port create",
    python="network.create_port",
    terraform="openstack_networking_port_v2",
    ansible="openstack.cloud.port",
    ansible_result="port",
)  # fmt: skip
PORT_EDIT = edited(
    PORT,
    "port",
    path="ports/{port}",
    command="port set",
    python="network.update_port",
    without=("network_id", "no_security_groups"),
    clears={
        "fixed_ips": "--no-fixed-ip",
        "security_groups": "--no-security-group",
        "allowed_address_pairs": "--no-allowed-address",
    },
)
ROUTER = Kind(
    key="router",
    service="network",
    path="routers",
    envelope="router",
    attributes=(
        UP,
        attribute("gateway", body="external_gateway_info.network_id", option="--external-gateway",
                  python="external_gateway_info.network_id", terraform="external_network_id", ansible="network"),
        attribute("enable_snat", body="external_gateway_info.enable_snat", python="external_gateway_info.enable_snat",
                  flags=("--enable-snat", "--disable-snat"), usual=True),
        attribute("interfaces", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform=IMPLIED),
        attribute("description", ansible=None),
        NAME,
    ),
    command="router create",
    python="network.create_router",
    terraform="openstack_networking_router_v2",
    ansible="openstack.cloud.router",
    ansible_result="router",
)  # fmt: skip
ROUTER_EDIT = edited(
    ROUTER,
    "router",
    path="routers/{router}",
    command="router set",
    python="network.update_router",
    without=("gateway", "enable_snat", "interfaces"),
)
GATEWAY = Kind(
    key="gateway",
    service="network",
    path="routers/{router}",
    envelope="router",
    attributes=(
        attribute("gateway", body="external_gateway_info.network_id", option="--external-gateway",
                  python="external_gateway_info.network_id"),
        attribute("enable_snat", body="external_gateway_info.enable_snat", python="external_gateway_info.enable_snat",
                  flags=("--enable-snat", "--disable-snat"), usual=True),
        part_of_path("router"),
    ),
    command="router set",
    python="network.update_router",
    method="PUT",
)  # fmt: skip
ROUTER_INTERFACE = Kind(
    key="interface",
    service="network",
    path="routers/{router}/add_router_interface",
    envelope="",
    attributes=(
        part_of_path("router", terraform="router_id"),
        attribute("subnet_id", option=POSITIONAL),
    ),
    command="router add subnet",
    python="network.add_interface_to_router",
    terraform="openstack_networking_router_interface_v2",
    method="PUT",
)
"""Of an existing router: the module of Ansible would remove its other interfaces."""
FIRST_INTERFACE = replace(ROUTER_INTERFACE, ansible=IMPLIED)
ROUTER_PORT = replace(
    ROUTER_INTERFACE,
    attributes=(part_of_path("router", terraform="router_id"), attribute("port_id", option=POSITIONAL)),
    command="router add port",
)
ROUTE = Kind(
    key="route",
    service="network",
    path="routers/{router}/add_extraroutes",
    envelope="router",
    attributes=(
        attribute("routes", option="--route", python=IMPLIED, terraform=IMPLIED,
                  convert={"option": entries(("destination", "destination"), ("nexthop", "gateway"))}),
        part_of_path("router", terraform="router_id"),
        attribute("body", body=IMPLIED, option=IMPLIED, python=POSITIONAL, terraform=IMPLIED),
        attribute("destination_cidr", body=IMPLIED, option=IMPLIED, python=IMPLIED),
        attribute("next_hop", body=IMPLIED, option=IMPLIED, python=IMPLIED),
    ),
    command="router add route",
    python="network.add_extra_routes_to_router",
    terraform="openstack_networking_router_route_v2",
    method="PUT",
)  # fmt: skip
FLOATING_IP = Kind(
    key="floating_ip",
    service="network",
    path="floatingips",
    envelope="floatingip",
    attributes=(
        attribute("address", body="floating_ip_address", option="--floating-ip-address", python="floating_ip_address"),
        attribute("port_id", option="--port"),
        attribute("fixed_address", body="fixed_ip_address", option="--fixed-ip-address", python="fixed_ip_address",
                  terraform="fixed_ip"),
        DESCRIPTION,
        attribute("network_id", body="floating_network_id", option=POSITIONAL, python="floating_network_id",
                  terraform=IMPLIED),
        attribute("network_name", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform="pool"),
    ),
    command="floating ip create",
    python="network.create_ip",
    terraform="openstack_networking_floatingip_v2",
)  # fmt: skip
"""The module of Ansible creates floating IPs only for servers."""
ASSOCIATION = Kind(
    key="floating_ip",
    service="network",
    path="floatingips/{floating_ip}",
    envelope="floatingip",
    attributes=(
        attribute("port_id", option="--port"),
        attribute("fixed_address", body="fixed_ip_address", option="--fixed-ip-address", python="fixed_ip_address",
                  terraform="fixed_ip"),
        part_of_path("floating_ip", terraform=IMPLIED),
        attribute("address", body=IMPLIED, option=IMPLIED, python=IMPLIED, terraform="floating_ip"),
    ),
    command="floating ip set",
    python="network.update_ip",
    terraform="openstack_networking_floatingip_associate_v2",
    method="PUT",
)  # fmt: skip
FORWARDING = Kind(
    key="port_forwarding",
    service="network",
    path="floatingips/{floating_ip}/port_forwardings",
    envelope="port_forwarding",
    attributes=(
        attribute("internal_ip_address"),
        attribute("internal_port_id", option="--port"),
        attribute("internal_port", option="--internal-protocol-port"),
        attribute("external_port", option="--external-protocol-port"),
        attribute("internal_port_range", option="--internal-protocol-port", terraform=None),
        attribute("external_port_range", option="--external-protocol-port", terraform=None),
        attribute("protocol"),
        DESCRIPTION,
        part_of_path("floating_ip", python="floatingip_id", terraform="floatingip_id"),
    ),
    command="floating ip port forwarding create",
    python="network.create_port_forwarding",
    terraform="openstack_networking_portforwarding_v2",
)
FORWARDED_RANGE = replace(FORWARDING, terraform=None)
"""Several ports: the Terraform provider requires a single one."""
FORWARDING_EDIT = edited(
    FORWARDING,
    "floating_ip",
    "port_forwarding",
    path="floatingips/{floating_ip}/port_forwardings/{port_forwarding}",
    command="floating ip port forwarding set",
    python="network.update_floating_ip_port_forwarding",
    without=("floating_ip",),
)
SECURITY_GROUP = Kind(
    key="security_group",
    service="network",
    path="security-groups",
    envelope="security_group",
    attributes=(
        attribute("stateful", flags=("--stateful", "--stateless"), usual=True),
        DESCRIPTION,
        NAME,
    ),
    command="security group create",
    python="network.create_security_group",
    terraform="openstack_networking_secgroup_v2",
    ansible="openstack.cloud.security_group",
    ansible_result="security_group",
)
SECURITY_GROUP_EDIT = edited(
    SECURITY_GROUP,
    "security_group",
    path="security-groups/{security_group}",
    command="security group set",
    python="network.update_security_group",
)
RULE = Kind(
    key="rule",
    service="network",
    path="security-group-rules",
    envelope="security_group_rule",
    attributes=(
        attribute("direction", option=IMPLIED),
        attribute("ingress", body=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=IMPLIED,
                  flags=("--ingress", "--egress")),
        attribute("ethertype", ansible="ether_type"),
        attribute("protocol", option=IMPLIED),
        attribute("any_protocol", body=IMPLIED, option="--protocol", python=IMPLIED, terraform=IMPLIED,
                  ansible=IMPLIED),
        attribute("port_range_min", option=IMPLIED),
        attribute("port_range_max", option=IMPLIED),
        attribute("dst_port", body=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=IMPLIED),
        attribute("icmp_type", body=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=IMPLIED),
        attribute("icmp_code", body=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=IMPLIED),
        attribute("remote_ip_prefix", option="--remote-ip"),
        attribute("remote_group_id", option="--remote-group", ansible="remote_group"),
        attribute("remote_address_group_id", option="--remote-address-group", ansible=None),
        DESCRIPTION,
        attribute("security_group_id", option=POSITIONAL, ansible="security_group"),
    ),
    command="security group rule create",
    python="network.create_security_group_rule",
    terraform="openstack_networking_secgroup_rule_v2",
    ansible="openstack.cloud.security_group_rule",
    ansible_result="rule",
)  # fmt: skip
ICMP = frozenset({"icmp", "icmpv6", "ipv6-icmp", "1", "58"})


def rule_values(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of RULE for the columns of a rule; the command has other options for them."""
    low, high, protocol = rule.get("port_range_min"), rule.get("port_range_max"), rule.get("protocol")
    values = dict(rule) | {"ingress": rule["direction"] == "ingress", "any_protocol": protocol or "any"}
    if protocol in ICMP:
        return values | {"icmp_type": low, "icmp_code": high}
    return values | ({"dst_port": f"{low}:{high}"} if low is not None else {})
