"""Security groups with their rules, the rules that new ones begin with, address groups and RBAC policies."""

from __future__ import annotations

import pytest

from tests.samples.recorder import Scene
from tests.samples.scenes.networks import V, made


def security_groups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/security-groups", "/v2.0/security-groups/{security_group_id}"
    new = play("create", "POST", path, {"security_group": {"name": "web", "description": "Mine"}}, keep=V)
    scene.let("security_group_id", new["security_group"]["id"])
    play("create several", "POST", path, {"security_groups": [{"name": "one"}, {"name": "two", "stateful": False}]})
    play("list", "GET", f"{path}?name=web")
    play("list the default one", "GET", f"{path}?name=default&fields=name&fields=description")
    play("show", "GET", one)
    play("update", "PUT", one, {"security_group": {"name": "other", "description": "Other"}})
    net = made(scene, "networks", "network", {"name": "inner"})["id"]
    made(scene, "ports", "port", {"network_id": net, "security_groups": [new["security_group"]["id"]]})
    play("delete what is in use", "DELETE", one)
    scene.api("alice").delete(f"/network/v2.0/ports/{scene.ids['port_id']}")
    play("delete", "DELETE", one)


def security_group_rules(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/security-group-rules", "/v2.0/security-group-rules/{security_group_rule_id}"
    group = made(scene, "security-groups", "security_group", {"name": "web"})["id"]
    own = {"security_group_id": group, "direction": "ingress"}
    body = own | {"protocol": "tcp", "port_range_min": 80, "port_range_max": 90, "remote_ip_prefix": "10.0.0.7/8"}
    new = play("create", "POST", path, {"security_group_rule": body | {"description": "Web"}}, keep=V)
    scene.let("security_group_rule_id", new["security_group_rule"]["id"])
    play("create it again", "POST", path, {"security_group_rule": body})
    several = [own | {"remote_group_id": group}, own | {"protocol": "icmp", "port_range_min": 8}]
    play("create several", "POST", path, {"security_group_rules": several})
    play("create with two remotes", "POST", path, {"security_group_rule": body | {"remote_group_id": group}})
    play("create with a wrong range", "POST", path, {"security_group_rule": body | {"port_range_min": 99}})
    play("list", "GET", f"{path}?security_group_id={{security_group_id}}&direction=ingress")
    play("show", "GET", one)
    play("delete", "DELETE", one, keep=V)
    play("show what is gone", "GET", one)


def default_rules(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/default-security-group-rules"
    one = f"{path}/{{default_security_group_rule_id}}"
    body = {
        "direction": "ingress",
        "protocol": "tcp",
        "port_range_min": 22,
        "port_range_max": 22,
        "remote_group_id": "PARENT",
        "used_in_default_sg": True,
        "description": "SSH",
    }
    play("create what only operators may", "POST", path, {"default_security_group_rule": body})
    new = play("create", "POST", path, {"default_security_group_rule": body}, who="operator", keep=V)
    scene.let("default_security_group_rule_id", new["default_security_group_rule"]["id"])
    play("create it again", "POST", path, {"default_security_group_rule": body}, who="operator")
    play("list", "GET", f"{path}?protocol=tcp&direction=ingress")
    play("show", "GET", one)
    play("delete", "DELETE", one, who="operator")


def address_groups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/address-groups", "/v2.0/address-groups/{address_group_id}"
    body = {"name": "office", "description": "Mine", "addresses": ["192.0.2.0/24", "fd00:2::/64"]}
    new = play("create", "POST", path, {"address_group": body}, keep=V)
    scene.let("address_group_id", new["address_group"]["id"])
    play("create with nonsense", "POST", path, {"address_group": {"addresses": ["nonsense"]}})
    play("list", "GET", path)
    play("show", "GET", one)
    play("update", "PUT", one, {"address_group": {"name": "other"}})
    play("add ranges", "PUT", f"{one}/add_addresses", {"address_group": {"addresses": ["198.51.100.7/32"]}})
    play("add a range that is there", "PUT", f"{one}/add_addresses", {"address_group": {"addresses": ["192.0.2.0/24"]}})
    play("remove ranges", "PUT", f"{one}/remove_addresses", {"address_group": {"addresses": ["192.0.2.0/24"]}})
    gone = {"address_group": {"addresses": ["203.0.113.0/24"]}}
    play("remove a range that is not there", "PUT", f"{one}/remove_addresses", gone)
    group = made(scene, "security-groups", "security_group", {"name": "web"})["id"]
    rule = {"security_group_id": group, "direction": "ingress", "remote_address_group_id": new["address_group"]["id"]}
    made(scene, "security-group-rules", "security_group_rule", rule)
    play("delete what is in use", "DELETE", one)
    scene.api("alice").delete(f"/network/v2.0/security-group-rules/{scene.ids['security_group_rule_id']}")
    play("delete", "DELETE", one)


def rbac_policies(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/rbac-policies", "/v2.0/rbac-policies/{rbac_policy_id}"
    net = made(scene, "networks", "network", {"name": "inner"})["id"]
    charlie = scene.people.charlie.project_id.hex
    body = {"object_type": "network", "object_id": net, "action": "access_as_shared", "target_tenant": charlie}
    new = play("create", "POST", path, {"rbac_policy": body}, keep=V)
    scene.let("rbac_policy_id", new["rbac_policy"]["id"])
    play("create it again", "POST", path, {"rbac_policy": body})
    play("create for everybody", "POST", path, {"rbac_policy": body | {"target_tenant": "*"}})
    play(
        "create for everybody as an operator",
        "POST",
        path,
        {"rbac_policy": body | {"target_tenant": "*"}},
        who="operator",
    )
    play("list", "GET", f"{path}?object_type=network&action=access_as_shared")
    play("show", "GET", one)
    play("update", "PUT", one, {"rbac_policy": {"target_tenant": scene.people.operator.project_id.hex}})
    made(scene, "ports", "port", {"network_id": net}, who="charlie")
    play("delete what is in use", "DELETE", one)
    scene.api("charlie").delete(f"/network/v2.0/ports/{scene.ids['port_id']}")
    play("delete", "DELETE", one)


SCENES = {
    "security_groups": security_groups,
    "security_group_rules": security_group_rules,
    "default_security_group_rules": default_rules,
    "address_groups": address_groups,
    "rbac_policies": rbac_policies,
}
