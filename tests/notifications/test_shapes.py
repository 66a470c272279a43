"""What is told of servers, hosts and aggregates: which notifications, in which order, with which fields."""

from __future__ import annotations

import json
import logging
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks

from provisioning.common.context import RequestContext
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.detach_volume import detach_volume
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.actions.lock import Unlock
from provisioning.compute.actions.lock import lock as lock_server
from provisioning.compute.actions.power import CrashDump, Stop
from provisioning.compute.actions.registry import commanded_tasks
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.swap_volume import swap_volume
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.jobs import audit_usage
from provisioning.compute.launch.request import DiskRequest, InjectedFile, NetworkRequest
from provisioning.compute.models import BlockDevice
from provisioning.compute.notifications.table import every_type, payload_of
from provisioning.compute.services import aggregates
from provisioning.compute.services.hosts import disable_host, forget_host
from provisioning.compute.services.instances import update
from provisioning.events.models import Event
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.notifications.models import Delivery
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.notifications.conftest import data, notices, types
from tests.support.clouds import ADMIN, Cloud, base64_of, context
from tests.support.jobs import drain
from tests.support.scripted_pool import ScriptedPool
from tests.support.tasks import Scene, in_the_middle_of, the_command

pytestmark = pytest.mark.django_db

INSTANCE = {
    *("uuid", "tenant_id", "user_id", "display_name", "display_description", "reservation_id", "host_name", "host"),
    *("node", "availability_zone", "state", "task_state", "power_state", "progress", "locked", "locked_reason"),
    *("image_uuid", "architecture", "os_type", "kernel_id", "ramdisk_id", "key_name", "metadata", "auto_disk_config"),
    *("block_devices", "flavor", "created_at", "updated_at", "launched_at", "terminated_at", "deleted_at"),
    *("ip_addresses", "request_id", "action_initiator_user", "action_initiator_project"),
}
CREATE = INSTANCE | {"fault", "keypairs", "tags", "trusted_image_certificates", "instance_name"}
RESIZE = ["resize_prep.start", "resize_prep.end", "resize.start"]
RESIZED = ["resize.end", "resize_finish.start", "resize_finish.end"]
MORE = {
    "snapshot": {"snapshot_image_id"},
    "rescue": {"rescue_image_ref"},
    "rebuild": {"trusted_image_certificates"},
    "resize_prep": {"new_flavor"},
    "volume_attach": {"volume_id"},
    "volume_detach": {"volume_id"},
    "volume_mount": {"volume_id"},
    "file_system_extend": {"volume_id"},
    "volume_swap": {"old_volume_id", "new_volume_id"},
}


@pytest.fixture(params=commanded_tasks(), ids=lambda task: task.value)
def scene(request: pytest.FixtureRequest, cloud: Cloud, alice: RequestContext, settings: Any) -> Scene:
    """A server in the middle of a task; what was told before its last action is forgotten."""
    forget = Event.objects.filter(topic="notifications").delete
    return in_the_middle_of(request.param, cloud, alice, settings, at_rest=forget)


def started(name: str) -> list[str]:
    names = RESIZE if name == "resize" else [f"{name}.start"] if name else []
    return [f"instance.{each}" for each in names]


def check_shape(message: dict[str, Any]) -> None:
    event = message["event_type"]
    assert set(message) == {"message_id", "event_type", "publisher_id", "priority", "timestamp", "payload"}
    assert str(uuid.UUID(message["message_id"])) == message["message_id"]
    assert datetime.fromisoformat(message["timestamp"]).tzinfo is not None
    assert re.fullmatch(r"nova-(compute|conductor|api):.+", message["publisher_id"])
    assert message["priority"] == ("ERROR" if event.endswith(".error") else "INFO")
    payload = message["payload"]
    assert set(payload) == {"nova_object.name", "nova_object.namespace", "nova_object.version", "nova_object.data"}
    assert (payload["nova_object.name"], payload["nova_object.version"]) == payload_of(event)
    assert payload["nova_object.namespace"] == "nova"
    kind, action = event.split(".")[:2]
    if kind == "instance" and action not in {"create", "update", "exists"}:
        assert set(data(message)) == INSTANCE | {"fault"} | MORE.get(action, set()), event
    assert event in every_type()


def test_every_action_is_reported_when_it_begins_and_when_it_ended(scene: Scene) -> None:
    name = scene.action.notification
    begun = types()
    assert begun == started(name)
    scene.cloud.run()
    ended = [f"instance.{each}" for each in (RESIZED if name == "resize" else [f"{name}.end"] if name else [])]
    assert types() == begun + ended
    for message in notices():
        check_shape(message)
        assert data(message)["uuid"] == str(scene.server.id)
        assert data(message)["fault"] is None
        assert message["publisher_id"] == "nova-compute:kelvin"
        assert len(data(message)["ip_addresses"]) == 1
    assert len({(data(each)["request_id"], data(each)["action_initiator_user"]) for each in notices()}) <= 1
    if name == "snapshot":
        made = set(Image.objects.exclude(id=scene.cloud.image.id).values_list("id", flat=True))
        assert {uuid.UUID(data(each)["snapshot_image_id"]) for each in notices()} == made
    before = types()
    scene.host.repeat_everything()
    assert types() == before


def test_every_failure_is_reported_with_its_fault(scene: Scene) -> None:
    name = scene.action.notification
    begun = types()
    scene.host.report(the_command(scene), "failed", error_code="host_failed", message="It broke.")
    assert types() == begun + ([f"instance.{name}.error"] if name else [])
    if name:
        message = notices()[-1]
        check_shape(message)
        fault = data(message)["fault"]
        assert (fault["nova_object.name"], fault["nova_object.version"]) == ("ExceptionPayload", "1.1")
        fault_data = fault["nova_object.data"]
        assert set(fault_data) == {"exception", "exception_message", "function_name", "module_name", "traceback"}
        assert (fault_data["exception"], fault_data["exception_message"]) == ("host_failed", "It broke.")


def test_a_launch_from_start_to_end(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice, metadata={"role": "web"}, tags=["blue"])
    assert types() == []
    cloud.run()
    assert types() == ["instance.create.start", "instance.create.end"]
    start, end = notices()
    for message in (start, end):
        check_shape(message)
        assert set(data(message)) == CREATE
        assert message["publisher_id"] == "nova-compute:kelvin"
        assert data(message)["request_id"] == alice.request_id
        assert data(message)["action_initiator_user"] == alice.user_id.hex if alice.user_id else False
        assert data(message)["tenant_id"] == server.project_id.hex
        assert (data(message)["metadata"], data(message)["tags"]) == ({"role": "web"}, ["blue"])
    assert (data(start)["state"], data(start)["task_state"]) == ("building", "networking")
    assert (data(start)["ip_addresses"], data(start)["launched_at"]) == ([], None)
    assert (data(end)["state"], data(end)["task_state"], data(end)["power_state"]) == ("active", None, "running")
    assert data(end)["launched_at"] is not None
    flavor = data(end)["flavor"]
    assert (flavor["nova_object.name"], flavor["nova_object.data"]["flavorid"]) == ("FlavorPayload", "1")
    (address,) = data(end)["ip_addresses"]
    assert address["nova_object.name"] == "IpPayload"
    assert address["nova_object.data"]["address"].startswith("10.20.0.")
    assert (address["nova_object.data"]["label"], address["nova_object.data"]["version"]) == ("net", 4)


def test_a_launch_that_finds_no_host(cloud: Cloud, alice: RequestContext) -> None:
    cloud.launch(alice)
    cloud.run()
    (message,) = notices()
    check_shape(message)
    assert message["event_type"] == "instance.create.error"
    assert message["publisher_id"].startswith("nova-conductor:")
    assert set(data(message)) == CREATE
    fault = data(message)["fault"]["nova_object.data"]
    assert fault["exception"] == "NoValidHost"
    assert fault["exception_message"].startswith("No valid host was found")


def test_a_delete(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    delete(context("alice"), server.id)
    cloud.run()
    assert types()[2:] == ["instance.delete.start", "instance.delete.end"]
    start, end = notices()[2:]
    assert len(data(start)["ip_addresses"]) == 1
    assert data(end)["ip_addresses"] == []
    assert data(end)["deleted_at"] is not None
    assert data(start)["request_id"] == data(end)["request_id"] != alice.request_id


@pytest.mark.slow
def test_a_shelved_server_leaves_its_host_and_comes_back(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Shelve.begin(alice, server.id)
    cloud.run()
    unshelve(context("alice"), server.id)
    cloud.run()
    names = [f"instance.{name}.{phase}" for name in ("shelve", "shelve_offload") for phase in ("start", "end")]
    assert types()[2:] == [*names, "instance.unshelve.start", "instance.unshelve.end"]


@pytest.mark.slow
def test_what_moves_no_state(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    Event.objects.filter(topic="notifications").delete()
    lock_server(alice, server.id, reason="mine")
    Unlock.begin(alice, server.id)
    port = attach_interface(context("alice"), server.id, NetworkRequest(network_id=str(cloud.network.id)))
    cloud.run()
    detach_interface(context("alice"), server.id, str(port))
    cloud.run()
    CrashDump.begin(context("alice"), server.id)
    cloud.run()
    named = ("interface_attach", "interface_detach", "trigger_crash_dump")
    phases = [f"instance.{name}.{phase}" for name in named for phase in ("start", "end")]
    assert types() == ["instance.lock", "instance.unlock", *phases]
    lock = notices()[0]
    assert (lock["publisher_id"].partition(":")[0], data(lock)["locked"]) == ("nova-api", True)
    assert data(lock)["locked_reason"] == "mine"
    for message in notices():
        check_shape(message)


def test_every_change_of_state_is_sent_to_subscribers(cloud: Cloud, alice: RequestContext, settings: Any) -> None:
    settings.NOTIFICATIONS = ["instance.update"]
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    update(alice, server.id, name="new")
    assert set(types()) == {"instance.update"}
    moves = [data(message)["state_update"]["nova_object.data"] for message in notices()]
    seen = [(move["old_task_state"], move["new_task_state"]) for move in moves]
    assert seen == [("scheduling", "networking"), ("networking", "spawning"), ("spawning", None), (None, None)]
    assert [(move["old_state"], move["state"]) for move in moves][2] == ("building", "active")
    for message in notices():
        check_shape(message)
        assert set(data(message)) == INSTANCE | {"state_update", "audit_period", "old_display_name", "tags"}
    assert data(notices()[-1])["display_name"] == "new"


@pytest.mark.slow
def test_the_audit_of_usage_tells_of_every_server_once(cloud: Cloud, alice: RequestContext, settings: Any) -> None:
    settings.INSTANCE_USAGE_AUDIT_PERIOD = "hour"
    cloud.add_host("kelvin")
    for name in ("a", "b"):
        cloud.launch(context("alice"), name=name)
    cloud.run()
    Event.objects.filter(topic="notifications").delete()
    later = datetime.now(UTC).replace(microsecond=0).timestamp() + 7200
    for _ in range(2):
        audit_usage(datetime.fromtimestamp(later, UTC))
    assert types() == ["instance.exists"] * 2
    for message in notices():
        check_shape(message)
        assert set(data(message)) == INSTANCE | {"audit_period"}
        assert len(data(message)["ip_addresses"]) == 1


def test_hosts_and_aggregates(cloud: Cloud) -> None:
    operator = context("operator", ADMIN)
    host = cloud.add_host("kelvin").host
    disable_host(operator, host.id, "broken fan")
    row = aggregates.create_aggregate(operator, "fast")
    aggregates.update_aggregate(operator, row.pk, {"name": "faster"})
    aggregates.set_aggregate_metadata(operator, row.pk, {"ssd": "true"})
    aggregates.add_host(operator, row.pk, "kelvin")
    aggregates.remove_host(operator, row.pk, "kelvin")
    aggregates.delete_aggregate(operator, row.pk)
    forget_host(operator, host.id)
    verbs = ("create", "update_prop", "update_metadata", "add_host", "remove_host", "delete")
    phases = [f"aggregate.{verb}.{phase}" for verb in verbs for phase in ("start", "end")]
    assert types("") == ["service.create", "service.update", *phases, "service.delete"]
    for message in notices(""):
        check_shape(message)
    disabled = data(notices("")[1])
    assert (disabled["host"], disabled["disabled"], disabled["disabled_reason"]) == ("kelvin", True, "broken fan")
    assert not Host.objects.exists()


@pytest.mark.slow
def test_no_secret_is_ever_reported(cloud: Cloud, settings: Any, alice: RequestContext) -> None:
    settings.NOTIFICATIONS = ["all"]
    cloud.add_host("kelvin")
    server = cloud.launch(
        alice,
        admin_password="correct-horse",
        user_data=base64_of(99),
        injected_files=[InjectedFile("/etc/secret", base64_of(77))],
    )
    cloud.run()
    delete(alice, server.id)
    cloud.run()
    text = json.dumps(notices())
    for secret in ("correct-horse", base64_of(99), base64_of(77), "/etc/secret", "admin_password", "user_data"):
        assert secret not in text


@pytest.mark.slow
def test_what_is_undone_is_not_reported(
    cloud: Cloud,
    alice: RequestContext,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    settings.NOTIFICATION_WEBHOOK = "http://127.0.0.1:9/"
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    cloud.run()
    before, waiting = types(), Delivery.objects.count()
    caplog.clear()
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        Stop.begin(alice, server.id)
        assert types()[-1] == "instance.power_off.start"
        transaction.set_rollback(True)
    assert (types(), Delivery.objects.count()) == (before, waiting)
    assert not [record for record in caplog.records if record.name == "novella.notifications"]
    drain()


def test_each_is_a_line_of_json_in_the_log(
    cloud: Cloud,
    alice: RequestContext,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    cloud.add_host("kelvin")
    cloud.launch(alice)
    with django_capture_on_commit_callbacks(execute=True):
        cloud.run()
    lines = [record.getMessage() for record in caplog.records if record.name == "novella.notifications"]
    assert [json.loads(line) for line in lines if "instance." in line] == notices()
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_what_members_write_is_logged_for_debugging_only(
    cloud: Cloud,
    alice: RequestContext,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    level: int,
) -> None:
    caplog.set_level(level, "novella.notifications")
    cloud.add_host("kelvin")
    secrets = {"description": "my-password-1", "metadata": {"token": "my-password-2"}, "tags": ("my-password-3",)}
    with django_capture_on_commit_callbacks(execute=True):
        cloud.launch(alice, **secrets)
        cloud.run()
    logged = "".join(record.getMessage() for record in caplog.records if record.name == "novella.notifications")
    assert ("my-password" in logged) is (level == logging.DEBUG)
    assert '"token":' in logged
    assert "my-password-2" in json.dumps(notices()), "programs are told"


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["none"], []),
        (["all", "-instance.update"], ["instance.create.start", "instance.create.end"]),
        (["instance.create.end"], ["instance.create.end"]),
        (["instance.*", "-*.start", "-instance.update"], ["instance.create.end"]),
    ],
)
def test_an_operator_chooses(
    cloud: Cloud, alice: RequestContext, settings: Any, patterns: list[str], expected: list[str]
) -> None:
    cloud.add_host("kelvin")
    Event.objects.all().delete()
    settings.NOTIFICATIONS = patterns
    cloud.launch(alice)
    cloud.run()
    assert types() == expected


@pytest.mark.slow
def test_a_launch_costs_no_query_more(cloud: Cloud, settings: Any, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    cloud.launch(alice)
    cloud.run()
    counted = []
    for patterns in (["none"], ["all", "-instance.update"]):
        settings.NOTIFICATIONS = patterns
        with CaptureQueriesContext(connection) as queries:
            cloud.launch(context("alice"))
            cloud.run()
        counted.append(len(queries))
    assert counted[0] == counted[1]


def test_the_failures_that_nova_tells_are_among_ours() -> None:
    assert set(every_type()) >= {
        f"instance.{name}.error" for name in ("create", "reboot", "rebuild", "resize", "interface_attach")
    }


def test_the_page_lists_every_type_with_its_payload() -> None:
    page = Path(__file__).resolve().parents[2].joinpath("docs/notifications.md").read_text()
    listed = {}
    for line in page.split("## Every event type\n", 1)[1].split("\n## ", 1)[0].splitlines():
        cells = line.split(" | ")
        for name in re.findall(r"`([a-z_.]+)`", cells[0]) if len(cells) == 3 else ():
            listed[name] = cells[1]
    assert listed == {name: " ".join(payload_of(name)) for name in every_type()}


@pytest.mark.slow
def test_volumes_of_a_server(cloud: Cloud, alice: RequestContext) -> None:
    host = cloud.add_host("kelvin")
    host.serve(ScriptedPool())
    disk = DiskRequest(
        "image", "volume", str(cloud.image.id), boot_index=0, size=2, delete_on_termination=True, tag="os"
    )
    server = cloud.launch(alice, image_id="", disks=(disk,))
    cloud.run()
    root = BlockDevice.objects.get()
    devices = data(notices()[-1])["block_devices"]
    assert [each["nova_object.name"] for each in devices] == ["BlockDevicePayload"]
    assert devices[0]["nova_object.data"] == {
        "device_name": "/dev/vda",
        "volume_id": str(root.volume_id),
        "delete_on_termination": True,
        "boot_index": 0,
        "tag": "os",
    }
    one, two, three = (str(Create.begin(alice, VolumeRequest(size_gb=1)).id) for _ in range(3))
    cloud.run()
    Event.objects.filter(topic="notifications").delete()
    attach_volume(context("alice"), server.id, VolumeToAttach(one))
    cloud.run()
    swap_volume(context("alice"), server.id, one, two)
    cloud.run()
    detach_volume(context("alice"), server.id, two)
    cloud.run()
    host.failing["connect_volume_request"] = "No room."
    attach_volume(context("alice"), server.id, VolumeToAttach(three))
    cloud.run()
    named = [
        (each["event_type"].removeprefix("instance.volume_"), {k: v for k, v in data(each).items() if "volume_id" in k})
        for each in notices()
    ]
    assert named == [
        *((f"attach.{phase}", {"volume_id": one}) for phase in ("start", "end")),
        *((f"swap.{phase}", {"old_volume_id": one, "new_volume_id": two}) for phase in ("start", "end")),
        *((f"detach.{phase}", {"volume_id": two}) for phase in ("start", "end")),
        *((f"attach.{phase}", {"volume_id": three}) for phase in ("start", "error")),
    ]
    for message in notices():
        check_shape(message)
    assert [len(data(each)["block_devices"]) for each in notices()][:2] == [2, 2]
