"""What the Networking API says of itself and of the cloud: versions, extensions, quotas, agents, zones, addresses."""

from __future__ import annotations

import pytest

from portal.api.network.versions import EXTENSIONS
from tests.samples.recorder import Scene
from tests.samples.scenes.networks import V, made, network


def versions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    play("versions", "GET", "/")
    play("resources", "GET", "/v2.0/")
    two = ("external-net", "router")
    patch.setattr("portal.api.network.versions.EXTENSIONS", {alias: EXTENSIONS[alias] for alias in two})
    scene.ids["alias"] = "router"
    play("extensions", "GET", "/v2.0/extensions")
    play("extension", "GET", "/v2.0/extensions/{alias}")
    scene.ids["alias"] = "nonsense"
    play("an extension that is not there", "GET", "/v2.0/extensions/{alias}")


def quotas(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/quotas/{project_id}"
    scene.ids["project_id"] = scene.people.alice.project_id.hex
    made(scene, "networks", "network", {"name": "inner"})
    play("show", "GET", path)
    play("defaults", "GET", f"{path}/default")
    play("details", "GET", f"{path}/details.json")
    play("update what only operators may", "PUT", path, {"quota": {"network": 5}})
    play("update", "PUT", path, {"quota": {"network": 5, "port": -1}}, who="operator", keep=V)
    play("update to less than is used", "PUT", path, {"quota": {"network": 0}}, who="operator")
    play("update what is no quota", "PUT", path, {"quota": {"nonsense": 1}}, who="operator")
    play("projects with own quotas", "GET", "/v2.0/quotas", who="operator")
    play("delete", "DELETE", path, who="operator", keep=V)
    play("delete again", "DELETE", path, who="operator")


def agents(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    scene.cloud.add_host("h1")
    listed = play("agents", "GET", "/v2.0/agents?host=h1&sort_key=agent_type", who="operator")
    scene.let("agent_id", listed["agents"][0]["id"])
    play("agent", "GET", "/v2.0/agents/{agent_id}", who="operator")
    play("agents for a member", "GET", "/v2.0/agents")
    play("change an agent", "PUT", "/v2.0/agents/{agent_id}", {"agent": {"admin_state_up": False}}, who="operator")
    play("delete an agent", "DELETE", "/v2.0/agents/{agent_id}", who="operator")
    play("zones", "GET", "/v2.0/availability_zones?sort_key=resource")
    play("service providers", "GET", "/v2.0/service-providers")


def availability(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/network-ip-availabilities"
    net, _ = network(scene)
    made(scene, "ports", "port", {"network_id": net})
    made(scene, "subnets", "subnet", {"network_id": net, "ip_version": 6, "cidr": "fd30::/64"})
    play("list", "GET", f"{path}?network_name=inner", who="operator")
    play("list of one IP version", "GET", f"{path}?ip_version=4&network_name=inner", who="operator")
    play("list for a member", "GET", path)
    play("show", "GET", f"{path}/{{network_id}}", who="operator")


SCENES = {"versions": versions, "quotas": quotas, "agents": agents, "network_ip_availability": availability}
