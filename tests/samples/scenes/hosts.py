"""Hosts, services, aggregates and zones."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.hosts.models import Host
from tests.samples.recorder import Scene
from tests.samples.scenes.servers import server


def aggregates(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.cloud.add_host("h1")
    play, one = scene.play, "/os-aggregates/{aggregate_id}"
    made = play(
        "create",
        "POST",
        "/os-aggregates",
        {"aggregate": {"name": "rack", "availability_zone": "room"}},
        who="operator",
        keep=(2, 1),
    )
    scene.let("aggregate_id", made["aggregate"]["id"])
    play(
        "set metadata",
        "POST",
        f"{one}/action",
        {"set_metadata": {"metadata": {"ssd": "true"}}},
        who="operator",
        keep=(2, 1),
    )
    play("add a host", "POST", f"{one}/action", {"add_host": {"host": "h1"}}, who="operator", keep=(2, 1))
    play("list", "GET", "/os-aggregates", who="operator")
    play("show", "GET", one, who="operator")
    play("update", "PUT", one, {"aggregate": {"name": "other"}}, who="operator")
    play("cache images", "POST", f"{one}/images", {"cache": [{"id": str(scene.cloud.image.id)}]}, who="operator")
    play("delete with hosts", "DELETE", one, who="operator")
    play("zones", "GET", "/os-availability-zone")
    play("zones in detail", "GET", "/os-availability-zone/detail", who="operator")
    play("remove a host", "POST", f"{one}/action", {"remove_host": {"host": "h1"}}, who="operator", keep=(2, 1))
    play("delete", "DELETE", one, who="operator")


def hypervisors(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    Host.objects.update(uptime=" 10:00:00 up 1 day,  2:00,  0 users,  load average: 0.10, 0.20, 0.30")
    shown = scene.api("operator").get("/compute/v2.1/os-hypervisors").json()["hypervisors"][0]["id"]
    scene.let("hypervisor_id", shown)
    scene.ids["pattern"] = "h1"
    play, path = scene.play, "/os-hypervisors"
    uuids = scene.api("operator").get("/compute/v2.1/os-hypervisors", OpenStack_API_Version="compute 2.53").json()
    for at, number in (((2, 1), shown), ((2, 53), uuids["hypervisors"][0]["id"])):
        ends = {"since": at, "until": (2, 52) if at == (2, 1) else (2, 96), "who": "operator"}
        scene.let("hypervisor_id", number)
        word = "" if at == (2, 1) else " by uuid"
        play(f"show{word}", "GET", f"{path}/{{hypervisor_id}}", **ends)
        play(f"uptime{word}", "GET", f"{path}/{{hypervisor_id}}/uptime", **ends)
    play("show with servers", "GET", f"{path}/{{hypervisor_id}}?with_servers=true", who="operator", since=(2, 53))
    play("list", "GET", path, who="operator")
    play("list in detail", "GET", f"{path}/detail", who="operator")
    play("list with servers", "GET", f"{path}?with_servers=true&hypervisor_hostname_pattern=h1", who="operator")
    play("list in detail with servers", "GET", f"{path}/detail?with_servers=true", who="operator")
    play("a page", "GET", f"{path}?limit=1", who="operator")
    play("a page in detail", "GET", f"{path}/detail?limit=1", who="operator")
    play("statistics", "GET", f"{path}/statistics", who="operator")
    play("search", "GET", f"{path}/{{pattern}}/search", who="operator")
    play("servers", "GET", f"{path}/{{pattern}}/servers", who="operator")


def services(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.cloud.add_host("h1")
    play, path, who = scene.play, "/os-services", {"who": "operator"}
    play("list", "GET", path, **who)
    by_host: dict[str, Any] = {"host": "h1", "binary": "nova-compute"}
    play("disable", "PUT", f"{path}/disable", by_host, **who)
    play("disable with a reason", "PUT", f"{path}/disable-log-reason", by_host | {"disabled_reason": "repairs"}, **who)
    play("enable", "PUT", f"{path}/enable", by_host, **who)
    play("force down", "PUT", f"{path}/force-down", by_host | {"forced_down": True}, **who)
    listed = scene.api("operator").get(
        "/compute/v2.1/os-services?binary=nova-compute", OpenStack_API_Version="compute 2.53"
    )
    scene.let("service_id", listed.json()["services"][0]["id"])
    play(
        "update",
        "PUT",
        f"{path}/{{service_id}}",
        {"status": "disabled", "disabled_reason": "repairs", "forced_down": True},
        **who,
    )
    play("delete", "DELETE", f"{path}/{{service_id}}", **who)


def hosts(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    scene.ids["host_name"] = "h1"
    play, path, who = scene.play, "/os-hosts", {"who": "operator"}
    play("list", "GET", path, **who)
    play("show", "GET", f"{path}/{{host_name}}", **who)
    play("disable", "PUT", f"{path}/{{host_name}}", {"status": "disable"}, **who)
    play("maintenance", "PUT", f"{path}/{{host_name}}", {"maintenance_mode": "enable"}, **who)
    for what in ("reboot", "shutdown", "startup"):
        play(what, "GET", f"{path}/{{host_name}}/{what}", **who)


def drains(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    play, path, one, who = scene.play, "/novella-drains", "/novella-drains/{drain_id}", {"who": "operator"}
    play("plan", "GET", f"{path}/plan?host=h1&ways=stop", **who)
    made = play("create", "POST", path, {"drain": {"host": "h1", "ways": ["stop"], "reason": "disk"}}, **who)
    scene.let("drain_id", made["drain"]["id"])
    play("show", "GET", one, **who)
    play("list", "GET", path, **who)
    play("pause", "POST", f"{one}/action", {"pause": None}, **who)


SCENES = {"drains": drains, "aggregates": aggregates, "hypervisors": hypervisors, "services": services, "hosts": hosts}
