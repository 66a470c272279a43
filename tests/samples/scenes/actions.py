"""Actions of servers."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from compute_agent.contract.calls import ConsoleOutput
from provisioning.compute.models import Instance, Migration
from provisioning.hosts import calls
from provisioning.hosts.models import Host
from tests.samples.recorder import Scene, Version
from tests.samples.scenes.servers import server

URL = "/servers/{server_id}/action"


def act(scene: Scene, name: str, value: Any = None, *, label: str = "", **more: Any) -> Any:
    """Play one action at every microversion; ``values`` gives its value from a microversion on."""
    values: dict[Version, Any] = more.pop("values", {})
    bodies = {version: {name: each} for version, each in values.items()} or None
    return scene.play(label or name, "POST", URL, None if bodies else {name: value}, bodies=bodies, **more)


def put(scene: Scene, **columns: Any) -> None:
    """Write the server's state as if what leads there had been done."""
    Instance.objects.filter(id=scene.ids["server_id"]).update(task_state=None, **columns)


def do(scene: Scene, name: str, value: Any = None, who: str = "alice", **headers: str) -> None:
    """Do an action without a pair, and let the cloud come to rest."""
    answer = scene.api(who).post(f"/compute/v2.1/servers/{scene.ids['server_id']}/action", {name: value}, **headers)
    assert answer.status_code < 300, answer.content
    scene.cloud.run()


def power(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    act(scene, "reboot", {"type": "SOFT"})
    act(scene, "reboot", {"type": "HARD"}, label="reboot hard")
    act(scene, "reboot", {}, label="reboot without a type")
    act(scene, "os-stop")
    act(scene, "os-start", label="start what runs")
    act(scene, "pause")
    act(scene, "suspend")
    act(scene, "trigger_crash_dump")
    put(scene, vm_state="stopped", power_state=4)
    act(scene, "os-start")
    put(scene, vm_state="paused", power_state=3)
    act(scene, "unpause")
    put(scene, vm_state="suspended", power_state=4)
    act(scene, "resume")


def states(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    act(scene, "lock")
    act(scene, "lock", {"locked_reason": "mail"}, label="lock with a reason")
    act(scene, "unlock")
    act(scene, "os-resetState", {"state": "error"}, who="operator")
    act(scene, "changePassword", {"adminPass": "a-password"}, label="change a password without a guest agent")
    image = scene.cloud.image
    image.properties = {"hw_qemu_guest_agent": "yes"}
    image.save(update_fields=["properties"])
    server(scene)
    act(scene, "changePassword", {"adminPass": "a-password"})
    act(scene, "forceDelete")
    put(scene, vm_state="soft-delete")
    act(scene, "restore")
    do(scene, "forceDelete")
    server(scene)
    scene.api("alice").post(f"/compute/v2.1/servers/{scene.ids['server_id']}/action", {"lock": None})
    act(scene, "os-stop", label="stop what is locked for the operator's sake")
    act(scene, "injectNetworkInfo", who="operator")
    act(scene, "resetNetwork", who="operator")


def images(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    act(scene, "createImage", {"name": "copy", "metadata": {"a": "b"}})
    act(scene, "createImage", {"metadata": {}}, label="create an image without a name")
    act(scene, "createBackup", {"name": "backup", "backup_type": "daily", "rotation": 1})
    act(scene, "createBackup", {"name": "backup", "backup_type": "daily", "rotation": 0}, label="create no backup")


def shelving(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    act(scene, "shelve")
    act(scene, "shelveOffload", who="operator", label="offload what is not shelved")
    put(scene, vm_state="shelved")
    act(scene, "shelveOffload", who="operator")
    put(scene, vm_state="active")
    do(scene, "shelve")
    act(scene, "unshelve")
    act(scene, "unshelve", {"availability_zone": "nova"}, label="unshelve in a zone")
    act(scene, "unshelve", {"availability_zone": None}, label="unshelve in no zone")
    act(scene, "unshelve", {"host": "h1"}, who="operator", label="unshelve on a host")


def rebuilding(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    ref = {"imageRef": str(scene.cloud.image.id)}
    act(scene, "rebuild", ref)
    act(scene, "rebuild", ref, who="operator", label="rebuild for an administrator")
    act(
        scene,
        "rebuild",
        {**ref, "name": "anew", "metadata": {"a": "b"}, "adminPass": "a-password"},
        label="rebuild as another",
    )
    for field, value in (
        ("description", "Mine"),
        ("key_name", None),
        ("user_data", None),
        ("trusted_image_certificates", None),
        ("hostname", "anew"),
        ("preserve_ephemeral", True),
        ("personality", []),
        ("colour", "blue"),
    ):
        act(scene, "rebuild", {**ref, field: value}, label=f"rebuild with {field}")
    act(scene, "rescue")
    act(scene, "rescue", {"adminPass": "a-password", "rescue_image_ref": ref["imageRef"]}, label="rescue from an image")
    act(scene, "unrescue", label="unrescue what is not rescued")
    do(scene, "rescue")
    act(scene, "unrescue")


def resizing(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    act(scene, "resize", {"flavorRef": "2"})
    act(scene, "resize", {"flavorRef": "1"}, label="resize to the same flavor")
    act(scene, "confirmResize", label="confirm what is not resized")
    do(scene, "resize", {"flavorRef": "2"})
    act(scene, "confirmResize")
    act(scene, "revertResize")
    scene.play("migrations", "GET", "/os-migrations", who="operator")
    scene.play("migrations of a server", "GET", "/os-migrations?instance_uuid={server_id}", who="operator")
    scene.play("migrations page by page", "GET", "/os-migrations?limit=1", who="operator", since=(2, 58))
    scene.play("migrations of a user", "GET", "/os-migrations?user_id=nobody", who="operator")
    scene.play("live migrations of a server", "GET", "/servers/{server_id}/migrations", who="operator")


def moves(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    scene.cloud.add_host("h2")
    act(scene, "migrate", who="operator")
    act(scene, "migrate", {"host": "h2"}, who="operator", label="migrate to a host")
    block: dict[Version, Any] = {
        (2, 1): {"host": None, "block_migration": False, "disk_over_commit": False},
        (2, 25): {"host": None, "block_migration": "auto"},
        (2, 30): {"host": None, "block_migration": "auto", "force": False},
        (2, 68): {"host": None, "block_migration": "auto"},
    }
    act(scene, "os-migrateLive", values=block, who="operator")
    evacuate: dict[Version, Any] = {
        (2, 1): {"onSharedStorage": False},
        (2, 14): {},
        (2, 29): {"force": False},
        (2, 68): {},
    }
    act(scene, "evacuate", values=evacuate, who="operator")
    instance = Instance.objects.get(id=scene.ids["server_id"])
    assert instance.host is not None
    row = Migration.objects.create(
        instance=instance,
        migration_type="live-migration",
        status="running",
        source_compute="h1",
        dest_compute="h2",
        old_flavor=instance.flavor,
        new_flavor=instance.flavor,
        created_at=instance.created_at,
        updated_at=instance.updated_at,
        project_id=instance.project_id,
        user_id=instance.user_id,
    )
    scene.let("migration_id", row.id)
    path = "/servers/{server_id}/migrations"
    scene.play("live migrations", "GET", path, who="operator")
    scene.play("live migration", "GET", f"{path}/{{migration_id}}", who="operator")
    scene.play("live migrations in the list of all", "GET", "/os-migrations", who="operator")
    scene.play(
        "complete a live migration", "POST", f"{path}/{{migration_id}}/action", {"force_complete": None}, who="operator"
    )
    scene.play("stop a live migration", "DELETE", f"{path}/{{migration_id}}", who="operator")
    Host.objects.filter(name="h1").update(forced_down=True)
    bodies = {
        version: body | ({} if version > (2, 1) else {"adminPass": "s3cret"}) for version, body in evacuate.items()
    }
    act(scene, "evacuate", values=bodies, who="operator", label="evacuate from a host that is down")


def consoles(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    server(scene)
    patch.setattr(calls, "call", lambda *_, **__: ConsoleOutput(text="Booting\nlogin: "))
    act(scene, "os-getConsoleOutput", {"length": 10})
    act(scene, "os-getConsoleOutput", {}, label="the whole console log")
    act(scene, "os-getVNCConsole", {"type": "novnc"})
    act(scene, "os-getSPICEConsole", {"type": "spice-html5"})
    act(scene, "os-getRDPConsole", {"type": "rdp-html5"})
    act(scene, "os-getSerialConsole", {"type": "serial"})
    for protocol, kind in (
        ("vnc", "novnc"),
        ("serial", "serial"),
        ("spice", "spice-html5"),
        ("rdp", "rdp-html5"),
        ("mks", "webmks"),
    ):
        requested = {"remote_console": {"protocol": protocol, "type": kind}}
        scene.play(f"remote console {protocol}", "POST", "/servers/{server_id}/remote-consoles", requested)
    requested = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    made = scene.play(
        "a remote console", "POST", "/servers/{server_id}/remote-consoles", requested, since=(2, 96), keep=(2, 96)
    )
    scene.let("console_token", unquote(made["remote_console"]["url"]).rpartition("token=")[2])
    scene.play("where a console is", "GET", "/os-console-auth-tokens/{console_token}", who="operator")


SCENES = {
    "actions_power": power,
    "actions_state": states,
    "actions_images": images,
    "actions_shelve": shelving,
    "actions_rebuild": rebuilding,
    "actions_resize": resizing,
    "actions_migrate": moves,
    "consoles": consoles,
}
