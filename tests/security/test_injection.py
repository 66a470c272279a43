"""Text that ends up in files of other programs: a line break is never part of a name."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from compute_agent.contract.build import FixedAddress, ImageRef, NetworkRef, PortRef, SecurityRule
from compute_agent.images import cache
from compute_agent.network import dhcp, firewall
from compute_agent.network.links import interface_name
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError

NETWORK = NetworkRef(id="n", name="net", bridge="br0", cidr="10.0.0.0/24", gateway="10.0.0.1")
PORT = PortRef(
    id="p", mac_address="fa:16:3e:00:00:01", tap="tap0", network=NETWORK,
    fixed_ips=[FixedAddress(address="10.0.0.5", prefix_length=24)],
)  # fmt: skip
ENDS = ("\n", "\r", " ", "\x00", "\ndrop", ";", "\u2028")


@pytest.mark.parametrize("end", ENDS)
def test_nothing_follows_a_name(end: str) -> None:
    with pytest.raises(RetryableHostError):
        interface_name("tap0" + end)
    hostile = msgspec.structs.replace(PORT, mac_address=PORT.mac_address + end)
    with pytest.raises(ValueError, match="hardware address"):
        dhcp.leases_of([("web", hostile)])
    with pytest.raises(ValueError, match=r"^(not|a)"):
        firewall.ruleset([hostile], None)
    (lease,) = dhcp.leases_of([("web" + end, PORT)])
    assert dataclasses.asdict(lease)["hostname"] == ""
    network = msgspec.structs.replace(NETWORK, dns_domain="novalocal" + end)
    with pytest.raises(ValueError, match=r"^(not|a)"):
        dhcp.DhcpServer(cache.Path("/nowhere"))._config(network, [])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("field", ["protocol", "remote_ip_prefix", "remote_group_id", "direction", "ethertype"])
def test_no_rule_says_more_than_it_may(end: str, field: str) -> None:
    good = {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "remote_ip_prefix": "10.0.0.0/8"}
    good["remote_group_id"] = "0" * 32
    rule = SecurityRule(**{**good, field: good[field] + end})  # type: ignore[arg-type]
    port = msgspec.structs.replace(PORT, security_rules=[rule])
    before = firewall.ruleset([msgspec.structs.replace(PORT, security_rules=[SecurityRule(**good)])], None)  # type: ignore[arg-type]
    try:
        text = firewall.ruleset([port], None)
    except ValueError:
        return
    assert all(text.count(sign) <= before.count(sign) for sign in "\n\r\0;")


@pytest.mark.parametrize("value", ["a" * 64 + "\n", "../" + "a" * 64, "A" * 64])
def test_no_hash_leads_elsewhere(value: str) -> None:
    image = ImageRef(id="i", name="x", disk_format="raw", size=1, hash_algo="sha256", hash_value=value)
    with pytest.raises(ImageUnacceptableError):
        cache._name(image)
