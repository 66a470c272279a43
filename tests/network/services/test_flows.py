"""What a security rule may say, and which two say the same."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.errors import InvalidInputError
from provisioning.network.records import flows
from provisioning.network.records.flows import Flow
from tests.support.tables import each_row


def flow(**changes: Any) -> Flow:
    values: dict[str, Any] = {
        "direction": "ingress", "ethertype": "IPv4", "protocol": None, "port_min": None, "port_max": None,
        "prefix": None, **changes,
    }  # fmt: skip
    return flows.checked(**values)


@each_row(
    ("changes", "kept"),
    [
        ({"protocol": "TCP", "port_min": 22, "port_max": 22}, {"protocol": "tcp"}),
        ({"protocol": 6, "port_min": 1, "port_max": 65535}, {"protocol": "6"}),
        ({"protocol": "any"}, {"protocol": None}),
        ({"protocol": "-1"}, {"protocol": None}),
        ({"protocol": "icmp", "port_min": 8}, {"port_max": None}),
        ({"protocol": "icmp", "port_min": 0, "port_max": 0}, {"port_min": 0}),
        ({"protocol": "icmp", "ethertype": "IPv6", "port_min": 128}, {"ethertype": "IPv6"}),
        ({"protocol": "vrrp"}, {"protocol": "vrrp"}),
        ({"protocol": "0"}, {"protocol": "0"}),
        ({"prefix": "192.0.2.7"}, {"prefix": "192.0.2.7/32"}),
        ({"prefix": "192.0.2.7/24"}, {"prefix": "192.0.2.7/24"}),
        ({"prefix": "2001:db8::/32", "ethertype": "IPv6"}, {"prefix": "2001:db8::/32"}),
        ({"prefix": ""}, {"prefix": None}),
    ],
)
def test_what_may_be_specified_is_kept_in_one_form(changes: dict[str, Any], kept: dict[str, Any]) -> None:
    made = flow(**changes)
    assert {name: getattr(made, name) for name in kept} == kept


@each_row(
    ("changes", "error", "field"),
    [
        ({"protocol": "tcpp"}, "SecurityGroupRuleInvalidProtocolError", "protocol"),
        ({"protocol": "256"}, "SecurityGroupRuleInvalidProtocolError", "protocol"),
        ({"protocol": "٣"}, "SecurityGroupRuleInvalidProtocolError", "protocol"),
        ({"protocol": "tcp", "port_min": 0, "port_max": 22}, "SecurityGroupInvalidPortValueError", "port_range_min"),
        ({"protocol": "tcp", "port_min": 1, "port_max": 65536}, "SecurityGroupInvalidPortValueError", "port_range_max"),
        ({"protocol": "udp", "port_min": 23, "port_max": 22}, "SecurityGroupInvalidPortRangeError", "port_range_min"),
        ({"protocol": "udp", "port_min": 23}, "SecurityGroupInvalidPortRangeError", "port_range_min"),
        ({"port_min": 22, "port_max": 22}, "SecurityGroupProtocolRequiredWithPortsError", "port_range_min"),
        ({"protocol": "gre", "port_min": 1, "port_max": 2}, "SecurityGroupInvalidProtocolForPortError", "protocol"),
        ({"protocol": "icmp", "port_min": 256}, "SecurityGroupInvalidIcmpValueError", "port_range_min"),
        ({"protocol": "icmp", "port_max": 0}, "SecurityGroupMissingIcmpTypeError", "port_range_min"),
        ({"protocol": "icmpv6"}, "SecurityGroupEthertypeConflictWithProtocolError", "ethertype"),
        ({"prefix": "2001:db8::/32"}, "SecurityGroupRuleParameterConflictError", "remote_ip_prefix"),
        ({"prefix": "10.0.0.0/33"}, "InvalidCIDRError", "remote_ip_prefix"),
        ({"prefix": "10.0.0.0/24; accept"}, "InvalidCIDRError", "remote_ip_prefix"),
    ],
)
def test_what_cannot_be_is_refused_by_neutron_s_name(changes: dict[str, Any], error: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        flow(**changes)
    assert (type(raised.value).__name__, raised.value.field) == (error, field)


@each_row(
    ("one", "other", "same"),
    [
        ({"protocol": "tcp"}, {"protocol": "6"}, True),
        ({"protocol": "icmp", "ethertype": "IPv6"}, {"protocol": "ipv6-icmp", "ethertype": "IPv6"}, True),
        ({"prefix": "0.0.0.0/0"}, {}, True),
        ({"protocol": "tcp", "port_min": 1, "port_max": 65535}, {"protocol": "tcp"}, True),
        ({"protocol": "tcp"}, {"protocol": "udp"}, False),
        ({"protocol": "tcp"}, {}, False),
        ({"direction": "egress"}, {}, False),
        ({"prefix": "10.0.0.0/8"}, {}, False),
    ],
)
def test_two_rules_that_say_the_same(one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (flow(**one).meaning == flow(**other).meaning) is same
