"""What must pass by the records of the API: the word that a run with packets holds the network to."""

from __future__ import annotations

from typing import Any

import pytest

from tools.chaos.packets.picture import PING, End, Flow, Picture

OUTSIDE = "203.0.113.1"
SSH, WEB = Flow("tcp", 22), Flow("tcp", 8080)


def _rule(group: str, direction: str = "ingress", **changes: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id"))
    return {"security_group_id": group, "direction": direction, "ethertype": "IPv4", **empty, **changes}


def _port(key: str, network: str, address: str, **changes: Any) -> dict[str, Any]:
    port = {
        "id": key, "network_id": network, "device_id": f"server-{key}", "device_owner": "compute:nova",
        "fixed_ips": [{"ip_address": address, "subnet_id": f"range-{network}"}], "admin_state_up": True,
        "port_security_enabled": True, "security_groups": ["default"],
    }  # fmt: skip
    return port | changes


def _leg(network: str, address: str, router: str = "router") -> dict[str, Any]:
    return _port(f"leg-{network}", network, address, device_owner="network:router_interface", device_id=router)


def _records(**changes: Any) -> dict[str, list[dict[str, Any]]]:
    """Two networks at one router, ``a`` and ``b`` on the first and ``c`` on the second, and one of another project."""
    networks = {"red": "10.1.0", "blue": "10.2.0", "other": "10.9.0", "public": "203.0.113"}
    return {
        "networks": [{"id": each, "admin_state_up": True} for each in networks],
        "subnets": [
            {"id": f"range-{each}", "cidr": f"{prefix}.0/24", "gateway_ip": f"{prefix}.1"}
            for each, prefix in networks.items()
        ],
        "ports": [
            _port("a", "red", "10.1.0.5"), _port("b", "red", "10.1.0.6"), _port("c", "blue", "10.2.0.5"),
            _port("d", "other", "10.9.0.5", security_groups=["theirs"]),
            _leg("red", "10.1.0.1"), _leg("blue", "10.2.0.1"),
            _port("g", "public", "203.0.113.9", device_owner="network:router_gateway", device_id="router"),
            _port("h", "public", "203.0.113.8", device_owner="network:floatingip_agent_gateway", device_id="host"),
            _port("i", "public", "203.0.113.7", device_owner="network:router_gateway", device_id="another"),
        ],
        "routers": [
            {"id": "router", "admin_state_up": True, "external_gateway_info": {"network_id": "public"}},
        ],
        "floatingips": [
            {"floating_ip_address": "203.0.113.40", "port_id": "c", "fixed_ip_address": "10.2.0.5",
             "router_id": "router"},
        ],
        "security-groups": [{"id": "default"}, {"id": "theirs"}, {"id": "web"}],
        "security-group-rules": [
            _rule("default", "egress"), _rule("default", remote_group_id="default"), _rule("theirs", "egress"),
            _rule("web", protocol="tcp", port_range_min=8000, port_range_max=8099),
        ],
    } | changes  # fmt: skip


def _end(picture: Picture, port: str) -> End:
    return next(each for each in picture.ends() if each.port["id"] == port)


def _passes(records: dict[str, Any], source: str, target: str, flow: Flow = SSH) -> bool:
    picture = Picture(records)
    return picture.passes(_end(picture, source), _end(picture, target), flow)


def _changed(records: dict[str, Any], kind: str, key: str, **changes: Any) -> dict[str, Any]:
    return records | {kind: [row | changes if row["id"] == key else row for row in records[kind]]}


def test_members_of_a_group_reach_each_other_on_a_network_and_through_a_router() -> None:
    records = _records()
    assert _passes(records, "a", "b")
    assert _passes(records, "a", "c", PING)
    assert not _passes(records, "d", "a")
    assert not _passes(records, "a", "d")


@pytest.mark.parametrize(
    ("kind", "key", "changes"),
    [
        ("routers", "router", {"admin_state_up": False}),
        ("ports", "leg-blue", {"device_id": "another"}),
        ("subnets", "range-blue", {"gateway_ip": "10.2.0.254"}),
        ("networks", "red", {"admin_state_up": False}),
        ("ports", "c", {"admin_state_up": False}),
        ("ports", "c", {"security_groups": []}),
        ("ports", "a", {"security_groups": ["web"]}),
    ],
)
def test_whatever_is_missing_on_the_way_stops_it(kind: str, key: str, changes: dict[str, Any]) -> None:
    assert not _passes(_changed(_records(), kind, key, **changes), "a", "c")


def test_a_rule_is_for_a_protocol_ports_and_a_source() -> None:
    records = _changed(_records(), "ports", "b", security_groups=["web"])
    assert _passes(records, "a", "b", WEB)
    assert not _passes(records, "a", "b", SSH)
    assert not _passes(records, "a", "b", PING)
    rules = [*records["security-group-rules"], _rule("web", protocol="icmp", remote_ip_prefix="10.2.0.0/24")]
    records["security-group-rules"] = rules
    assert not _passes(records, "a", "b", PING)
    assert _passes(records, "c", "b", PING)


def test_a_member_counts_only_near_and_with_port_security() -> None:
    unfiltered = _changed(_records(), "ports", "a", port_security_enabled=False, security_groups=["default"])
    assert not _passes(unfiltered, "a", "b")
    assert _passes(unfiltered, "b", "a")
    picture = Picture(_changed(_records(), "ports", "d", security_groups=["default"]))
    assert picture.members("default", _end(picture, "a")) == {"10.1.0.6", "10.2.0.5"}


def test_the_way_out_gives_a_guest_its_floating_ip_or_an_address_of_its_router_or_host() -> None:
    picture = Picture(_records())
    assert picture.leaves(_end(picture, "c"), WEB, OUTSIDE) == {"203.0.113.40"}
    assert picture.leaves(_end(picture, "a"), WEB, OUTSIDE) == {"203.0.113.8", "203.0.113.9"}
    assert picture.leaves(_end(picture, "d"), WEB, OUTSIDE) == set()
    closed = Picture(_changed(_records(), "ports", "c", security_groups=["web"]))
    assert closed.leaves(_end(closed, "c"), WEB, OUTSIDE) == set()


def test_a_floating_ip_leads_in_what_a_rule_opens() -> None:
    records = _changed(_records(), "ports", "c", security_groups=["web"])
    picture = Picture(records)
    (floating,) = picture.floating
    assert picture.enters(floating, _end(picture, "c"), WEB, OUTSIDE)
    assert not picture.enters(floating, _end(picture, "c"), SSH, OUTSIDE)
    without = Picture(_changed(records, "routers", "router", external_gateway_info=None))
    assert not without.enters(floating, _end(without, "c"), WEB, OUTSIDE)
