"""Flavors, key pairs, quotas and usage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.samples.recorder import Scene
from tests.samples.scenes.servers import server

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHb5vYb1vJr1cUu7yN2d6y2N0v1m3o9yqk6n0y3m4f5k alice"


def flavors(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, one = scene.play, "/flavors/{flavor_id}"
    scene.ids["flavor_id"] = "1"
    play("list", "GET", "/flavors")
    play("list in detail", "GET", "/flavors/detail")
    play("list in detail for an administrator", "GET", "/flavors/detail?is_public=None", who="operator")
    play("show", "GET", one)
    play("a page", "GET", "/flavors?limit=1&sort_key=name&sort_dir=desc")
    flavor = {"name": "mine", "ram": 64, "vcpus": 1, "disk": 1, "id": "9", "swap": 8, "OS-FLV-EXT-DATA:ephemeral": 1}
    more = {"os-flavor-access:is_public": False, "rxtx_factor": 1.0}
    play("create", "POST", "/flavors", {"flavor": flavor}, who="operator")
    play("create with a description", "POST", "/flavors", {"flavor": flavor | {"description": "Mine"}}, who="operator")
    bare = {"name": "bare", "ram": 64, "vcpus": 1, "disk": 1}
    play("create with what is required", "POST", "/flavors", {"flavor": bare | {"id": "8"}}, who="operator")
    play("create as a member", "POST", "/flavors", {"flavor": flavor})
    play("create and keep", "POST", "/flavors", {"flavor": flavor | more}, who="operator", since=(2, 96), keep=(2, 96))
    scene.ids["flavor_id"] = "9"
    play("update", "PUT", one, {"flavor": {"description": "Other"}}, who="operator")
    specs = f"{one}/os-extra_specs"
    play(
        "create extra specs", "POST", specs, {"extra_specs": {"hw:cpu_policy": "shared"}}, who="operator", keep=(2, 96)
    )
    play("create a wrong extra spec", "POST", specs, {"extra_specs": {"hw:cpu_policy": "nonsense"}}, who="operator")
    play("list extra specs", "GET", specs, who="operator")
    scene.ids["key"] = "hw:cpu_policy"
    play("show an extra spec", "GET", f"{specs}/{{key}}", who="operator")
    play("update an extra spec", "PUT", f"{specs}/{{key}}", {"hw:cpu_policy": "dedicated"}, who="operator")
    play("show with extra specs", "GET", one, who="operator")
    play("remove an extra spec", "DELETE", f"{specs}/{{key}}", who="operator")
    access, add = f"{one}/os-flavor-access", {"tenant": str(scene.people.alice.project_id)}
    play("grant access", "POST", f"{one}/action", {"addTenantAccess": add}, who="operator", keep=(2, 96))
    play("list access", "GET", access, who="operator")
    play("take access", "POST", f"{one}/action", {"removeTenantAccess": add}, who="operator")
    play("delete", "DELETE", one, who="operator")
    scene.ids["flavor_id"] = "77"
    play("show what is not there", "GET", one)


def keypairs(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play = scene.play
    play("create", "POST", "/os-keypairs", {"keypair": {"name": "key"}})
    play("import", "POST", "/os-keypairs", {"keypair": {"name": "key", "public_key": KEY}}, keep=(2, 1))
    play("import of a type", "POST", "/os-keypairs", {"keypair": {"name": "other", "public_key": KEY, "type": "ssh"}})
    whose = {"name": "other", "public_key": KEY, "user_id": str(scene.people.alice.user_id)}
    play("import for another user", "POST", "/os-keypairs", {"keypair": whose}, who="operator")
    scene.ids["name"] = "key"
    play("list", "GET", "/os-keypairs")
    play("a page", "GET", "/os-keypairs?limit=1")
    play("show", "GET", "/os-keypairs/{name}")
    play("delete", "DELETE", "/os-keypairs/{name}")


def quotas(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/os-quota-sets/{project_id}"
    scene.let("project_id", scene.people.alice.project_id)
    play("limits", "GET", "/limits")
    play("limits of a project", "GET", "/limits?tenant_id={project_id}", who="operator")
    play("show", "GET", path)
    play("show of a user", "GET", path + "?user_id=" + str(scene.people.alice.user_id), who="operator")
    play("defaults", "GET", f"{path}/defaults")
    play("in detail", "GET", f"{path}/detail", who="operator")
    play("update", "PUT", path, {"quota_set": {"cores": 40, "force": True}}, who="operator")
    play("update networks", "PUT", path, {"quota_set": {"floating_ips": 4}}, who="operator")
    play("update files", "PUT", path, {"quota_set": {"injected_files": 4}}, who="operator")
    play("reset", "DELETE", path, who="operator")
    of_user = "?user_id=" + str(scene.people.alice.user_id)
    play("update of a user", "PUT", path + of_user, {"quota_set": {"cores": 4}}, who="operator", keep=(2, 96))
    play("update of a user beyond the project", "PUT", path + of_user, {"quota_set": {"cores": 99}}, who="operator")
    play("in detail of a user", "GET", f"{path}/detail{of_user}", who="operator")
    play("reset of a user", "DELETE", path + of_user, who="operator")
    scene.ids["class_name"] = "default"
    play("class", "GET", "/os-quota-class-sets/{class_name}", who="operator")
    play(
        "update a class", "PUT", "/os-quota-class-sets/{class_name}", {"quota_class_set": {"cores": 40}}, who="operator"
    )


def usage(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    scene.let("project_id", scene.people.alice.project_id)
    play, path = scene.play, "/os-simple-tenant-usage"
    play("usage of all", "GET", path, who="operator")
    play("usage of all in detail", "GET", f"{path}?detailed=1", who="operator")
    play("usage page by page", "GET", f"{path}?detailed=1&limit=1", who="operator", since=(2, 39))
    play("usage", "GET", f"{path}/{{project_id}}")
    play("usage of a page", "GET", f"{path}/{{project_id}}?limit=1", since=(2, 39))
    play("audit log", "GET", "/os-instance_usage_audit_log", who="operator")
    before = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    scene.let("before_timestamp", before)
    play("audit log before", "GET", "/os-instance_usage_audit_log/{before_timestamp}", who="operator")


def extensions(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    scene.ids["alias"] = "os-keypairs"
    scene.play("list", "GET", "/extensions")
    scene.play("show", "GET", "/extensions/{alias}")


def groups(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, one = scene.play, "/os-server-groups/{server_group_id}"
    bodies: dict[tuple[int, int], Any] = {
        (2, 1): {"server_group": {"name": "g", "policies": ["anti-affinity"]}},
        (2, 64): {"server_group": {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
    }
    made = play("create", "POST", "/os-server-groups", bodies=bodies, keep=(2, 96))
    play("create soft", "POST", "/os-server-groups", {"server_group": {"name": "g", "policies": ["soft-affinity"]}})
    scene.let("server_group_id", made["server_group"]["id"])
    play("list", "GET", "/os-server-groups")
    play("show", "GET", one)
    play("delete", "DELETE", one)


SCENES = {
    "flavors": flavors,
    "keypairs": keypairs,
    "quotas": quotas,
    "usage": usage,
    "extensions": extensions,
    "server_groups": groups,
}
