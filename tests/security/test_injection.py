"""Text that ends up in files of other programs: a line break is never part of a name."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from compute_agent.contract.build import FixedAddress, ImageRef, NetworkRef, PortRef, SecurityRule, Segment
from compute_agent.contract.network import NetworkDocument, SecurityGroupDocument
from compute_agent.images import cache
from compute_agent.network.dhcp import dhcp_config
from compute_agent.network.dhcp.dhcp_config import DhcpUser
from compute_agent.network.filters import groups, plan, tables
from compute_agent.network.kernel.links import interface_name
from compute_agent.network.state.desired import DesiredState, LocalPort
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError

NETWORK = NetworkRef(
    id="n", name="net", bridge="br0", cidr="10.0.0.0/24", gateway="10.0.0.1", segment=Segment(type="vxlan", id=1)
)
PORT = PortRef(
    id="p", mac_address="fa:16:3e:00:00:01", tap="tap0", network=NETWORK,
    fixed_ips=[FixedAddress(address="10.0.0.5", prefix_length=24)],
)  # fmt: skip
DOCUMENT = NetworkDocument(id="n", name="net", bridge="br0", mtu=1500, segment=NETWORK.segment, subnets=[])
ENDS = ("\n", "\r", " ", "\x00", "\ndrop", ";", "\u2028")


@pytest.mark.parametrize("end", ENDS)
def test_nothing_follows_a_name(end: str) -> None:
    with pytest.raises(RetryableHostError):
        interface_name("tap0" + end)
    hostile = msgspec.structs.replace(PORT, mac_address=PORT.mac_address + end)
    with pytest.raises(ValueError, match="hardware address"):
        dhcp_config.leases_of([("web", hostile)])
    with pytest.raises(ValueError, match=r"^not"):
        plan.check(hostile)
    (lease,) = dhcp_config.leases_of([("web" + end, PORT)])
    assert dataclasses.asdict(lease)["hostname"] == ""
    network = msgspec.structs.replace(NETWORK, dns_domain="novalocal" + end)
    with pytest.raises(ValueError, match=r"^(not|a)"):
        dhcp_config.config(
            dhcp_config.Served(network.bridge, (), 1500, network.dns_domain, [], [], []),
            cache.Path("/nowhere"), cache.Path("/nowhere"), DhcpUser(),
        )  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("field", ["protocol", "remote_ip_prefix", "remote_group_id", "direction", "ethertype"])
def test_no_rule_says_more_than_it_may(end: str, field: str) -> None:
    good = {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "remote_ip_prefix": "10.0.0.0/8"}
    good["remote_group_id"] = "0" * 32
    rule = SecurityRule(**{**good, field: good[field] + end})  # type: ignore[arg-type]
    before, text = (rendered(each) for each in (SecurityRule(**good), rule))  # type: ignore[arg-type]
    assert all(text.count(sign) <= before.count(sign) for sign in "\n\r\0;")


def rendered(rule: SecurityRule) -> str:
    """What nft is told of a group with one rule."""
    group = SecurityGroupDocument(id="0" * 32, rules=[rule])
    port = msgspec.structs.replace(PORT, security_group_ids=[group.id])
    requested = DesiredState(
        ports=(LocalPort("i", "web", port),), networks={"n": DOCUMENT}, security_groups={group.id: group}
    )
    return tables.whole([groups.table(plan.draw(requested, {"p": 1}, {"n": 1}))])


@pytest.mark.parametrize("value", ["a" * 64 + "\n", "../" + "a" * 64, "A" * 64])
def test_no_hash_leads_elsewhere(value: str) -> None:
    image = ImageRef(id="i", name="x", disk_format="raw", size=1, hash_algo="sha256", hash_value=value)
    with pytest.raises(ImageUnacceptableError):
        cache.cached_name(image)
