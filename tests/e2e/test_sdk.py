"""openstacksdk's cloud layer and proxies against a running cloud of simulated hosts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from openstack import exceptions
from openstack.compute.v2 import _proxy as compute_proxy
from openstack.connection import Connection
from openstack.image.v2 import _proxy as image_proxy

from tests.e2e.sdk_proxies import NOT_CALLED, NOT_CALLED_IMAGE, Parts, Spy, connect, methods, refused
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHb5vYb1vJr1cUu7yN2d6y2N0v1m3o9yqk6n0y3m4f5k sdk"


@pytest.fixture(scope="module")
def simulated(restoring: OneMachine) -> OneMachine:
    return restoring


@pytest.mark.parametrize("microversion", [pytest.param(None, marks=pytest.mark.deep), "2.96"])
def test_compute_proxy(simulated: OneMachine, microversion: str | None) -> None:
    parts = Parts(connect(simulated, compute_default_microversion=microversion))
    flavors(parts)
    around(parts)
    old_images(parts, microversion)
    hosts(parts)
    quotas(parts)
    server = parts.server("sdk", metadata={"role": "web"})
    parts_of(parts, server)
    interfaces_of(parts, server)
    power(parts, server)
    changes(parts, server)
    assert methods(compute_proxy.Proxy) - parts.compute.used == set(NOT_CALLED)


def flavors(parts: Parts) -> None:
    compute = parts.compute
    flavor = compute.create_flavor(name="sdk", ram=64, vcpus=1, disk=1, is_public=False)
    assert compute.update_flavor(flavor, description="Own").description == "Own"
    assert compute.get_flavor(flavor.id).ram == 64
    assert "sdk" in {each.name for each in compute.flavors(is_public=None, get_extra_specs=True)}
    compute.flavor_add_tenant_access(flavor, parts.conn.current_project_id)
    assert len(compute.get_flavor_access(flavor)) == 1
    compute.flavor_remove_tenant_access(flavor, parts.conn.current_project_id)
    compute.create_flavor_extra_specs(flavor, {"hw:cpu_policy": "shared", "own:a": "b"})
    assert compute.get_flavor_extra_specs_property(flavor, "own:a") == "b"
    assert compute.update_flavor_extra_specs_property(flavor, "own:a", "c") == "c"
    compute.delete_flavor_extra_specs_property(flavor, "own:a")
    assert compute.fetch_flavor_extra_specs(flavor).extra_specs == {"hw:cpu_policy": "shared"}
    compute.delete_flavor(flavor)
    assert compute.find_flavor("sdk") is None


def around(parts: Parts) -> None:
    compute = parts.compute
    assert {"os-keypairs", "servers"} & {each.alias for each in compute.extensions()}
    key = compute.create_keypair(name="sdk", public_key=PUBLIC_KEY)
    assert compute.get_keypair("sdk").fingerprint == compute.find_keypair("sdk").fingerprint == key.fingerprint
    assert [each.name for each in compute.keypairs()] == ["sdk"]
    compute.delete_keypair("sdk")
    group = compute.create_server_group(name="sdk", policies=["affinity"])
    assert compute.get_server_group(group).name == compute.find_server_group("sdk").name == "sdk"
    assert [each.id for each in compute.server_groups()] == [group.id]
    compute.delete_server_group(group)
    assert compute.get_limits().absolute.instances >= 10
    assert [each.name for each in compute.availability_zones(details=True) if each.name != "internal"] == ["nova"]


def old_images(parts: Parts, microversion: str | None) -> None:
    """The Compute API passed images on up to 2.35, their metadata up to 2.38; the SDK asks at 2.1 for them."""
    compute = parts.compute
    own = parts.conn.image.create_image("sdk-proxied", disk_format="raw", container_format="bare", data=b"\x55" * 600)
    if microversion:
        refused(404, lambda: list(compute.images()))
        refused(404, lambda: compute.find_image("sdk-proxied", ignore_missing=False))
        refused(404, lambda: compute.get_image(own.id))
        refused(404, lambda: compute.set_image_metadata(own.id, a="b"))
        refused(404, lambda: compute.fetch_image_metadata(own.id))
        refused(404, lambda: compute.get_image_metadata(own.id))
        refused(404, lambda: compute.delete_image_metadata(own.id, ["a"]))
        refused(404, lambda: compute.delete_image(own.id, ignore_missing=False))
        parts.conn.image.delete_image(own.id)
        return
    assert "sdk-proxied" in {each.name for each in compute.images()}
    assert compute.find_image("sdk-proxied").id == compute.get_image(own.id).id
    assert compute.set_image_metadata(own.id, a="b").metadata["a"] == "b"
    assert compute.fetch_image_metadata(own.id).metadata["a"] == "b"
    assert compute.get_image_metadata(own.id).metadata["a"] == "b"
    compute.delete_image_metadata(own.id, ["a"])
    compute.delete_image(own.id)


def hosts(parts: Parts) -> None:
    compute = parts.compute
    aggregate = compute.create_aggregate(name="sdk", availability_zone="room")
    compute.add_host_to_aggregate(aggregate, "sim-1")
    compute.set_aggregate_metadata(aggregate, {"ssd": "true"})
    refused(400, lambda: compute.aggregate_precache_images(aggregate.id, [parts.image.id]))
    assert compute.get_aggregate(aggregate.id).hosts == ["sim-1"]
    assert compute.find_aggregate("sdk").metadata["ssd"] == "true"
    assert [each.name for each in compute.aggregates()] == ["sdk"]
    compute.update_aggregate(aggregate, name="sdk-2")
    compute.remove_host_from_aggregate(aggregate, "sim-1")
    compute.delete_aggregate(aggregate)
    result = compute.find_hypervisor("sim-1", ignore_missing=False)
    assert compute.get_hypervisor(result.id).name == "sim-1"
    with pytest.raises(exceptions.SDKException, match="not supported anymore"):
        compute.get_hypervisor_uptime(result.id)
    assert {each.name for each in compute.hypervisors(details=True)} >= {"sim-1", "sim-2"}
    service = next(each for each in compute.services() if each.host == "sim-2" and each.binary == "nova-compute")
    assert compute.find_service(service.id).id == service.id
    compute.disable_service(service, disabled_reason="repairs")
    compute.enable_service(service)
    compute.force_service_down(service, service.host, service.binary)
    compute.update_service_forced_down(service, service.host, service.binary, False)
    compute.update_service(service, status="enabled")
    with pytest.raises(exceptions.NotFoundException):
        compute.delete_service("00000000-0000-0000-0000-000000000000", ignore_missing=False)


def quotas(parts: Parts) -> None:
    compute, project = parts.compute, parts.conn.current_project_id
    assert compute.get_quota_set(project).instances == 10
    assert compute.get_quota_set(project, usage=True).usage["cores"] >= 0
    assert compute.get_quota_set_defaults(project).cores == 20
    assert compute.update_quota_set(project, cores=41).cores == 41
    compute.revert_quota_set(project)
    default = compute.get_quota_class_set("default")
    assert compute.update_quota_class_set("default", cores=default.cores).cores == 20
    assert isinstance(list(compute.usages()), list)
    assert compute.get_usage(project) is not None


def parts_of(parts: Parts, server: Any) -> None:
    compute = parts.compute
    assert server.addresses["demo-net"]
    assert [each.id for each in compute.servers(name="^sdk$")] == [server.id]
    assert compute.find_server("sdk").id == server.id
    assert compute.update_server(server, name="sdk-2").name == "sdk-2"
    assert compute.set_server_metadata(server, tier="1").metadata["tier"] == "1"
    assert compute.fetch_server_metadata(server).metadata == {"role": "web", "tier": "1"}
    assert compute.get_server_metadata(server).metadata == {"role": "web", "tier": "1"}
    compute.delete_server_metadata(server, ["tier"])
    compute.add_tag_to_server(server, "blue")
    compute.add_tag_to_server(server, "red")
    compute.remove_tag_from_server(server, "blue")
    compute.remove_tags_from_server(server)
    assert [each.network_label for each in compute.server_ips(server)] == ["demo-net"]
    assert list(compute.volume_attachments(server)) == []
    assert [each["name"] for each in compute.fetch_server_security_groups(server).security_groups] == ["default"]
    compute.remove_security_group_from_server(server, {"name": "default"})
    compute.add_security_group_to_server(server, {"name": "default"})
    assert compute.get_server_diagnostics(server).state == "running"
    assert compute.get_server_console_output(server)["output"] is not None
    console = compute.create_server_remote_console(server, protocol="vnc", type="novnc")
    assert console.url
    for older in (
        lambda: compute.get_server_console_url(server, "novnc"),
        lambda: compute.add_fixed_ip_to_server(server, parts.network.id),
        lambda: compute.remove_fixed_ip_from_server(server, "192.0.2.1"),
        lambda: compute.add_floating_ip_to_server(server, "192.0.2.1"),
        lambda: compute.remove_floating_ip_from_server(server, "192.0.2.1"),
    ):
        refused(404, older)  # the SDK asks at the newest microversion, which has these no more
    assert compute.create_console(server, "novnc")["url"]
    token = unquote(console.url).rpartition("token=")[2]
    assert compute.validate_console_auth_token(token).instance_uuid == server.id
    assert compute.get_server_password(server) == ""
    compute.clear_server_password(server)
    compute.change_server_password(server, "a-password")
    wait_for("the server is at rest", lambda: not compute.get_server(server.id).task_state)


def interfaces_of(parts: Parts, server: Any) -> None:
    compute = parts.compute
    interfaces = list(compute.server_interfaces(server))
    assert compute.get_server_interface(interfaces[0].port_id, server).net_id == parts.network.id
    interface = compute.create_server_interface(server, net_id=parts.network.id)
    wait_for("two interfaces", lambda: len(list(compute.server_interfaces(server))) == 2)
    compute.delete_server_interface(interface.port_id, server)
    wait_for("one interface", lambda: len(list(compute.server_interfaces(server))) == 1)
    done = list(compute.server_actions(server))
    assert "create" in {each.action for each in done}
    shown = compute.get_server_action(done[-1].request_id, server)
    assert (shown.action, bool(shown.events)) == ("create", True)
    event = {"name": "network-changed", "server_uuid": server.id}
    assert next(iter(compute.create_server_external_events([event]))).code == 200


def power(parts: Parts, server: Any) -> None:
    compute = parts.compute
    compute.lock_server(server, locked_reason="mail")
    compute.unlock_server(server)
    compute.trigger_server_crash_dump(server)
    steps = (
        (compute.stop_server, "SHUTOFF"),
        (compute.start_server, "ACTIVE"),
        (compute.pause_server, "PAUSED"),
        (compute.unpause_server, "ACTIVE"),
        (compute.suspend_server, "SUSPENDED"),
        (compute.resume_server, "ACTIVE"),
        (lambda it: compute.reboot_server(it, "HARD"), "ACTIVE"),
        (compute.rescue_server, "RESCUE"),
        (compute.unrescue_server, "ACTIVE"),
        (compute.shelve_server, "SHELVED"),
        (compute.shelve_offload_server, "SHELVED_OFFLOADED"),
        (compute.unshelve_server, "ACTIVE"),
        (lambda it: compute.reset_server_state(it, "error"), "ERROR"),
        (lambda it: compute.reset_server_state(it, "active"), "ACTIVE"),
    )
    for step, status in steps:
        step(server)
        parts.until(server, status)


def changes(parts: Parts, server: Any) -> None:
    compute = parts.compute
    rebuilt = compute.rebuild_server(server, image=parts.image.id, name="sdk-3")
    assert rebuilt.name == "sdk-3"
    parts.until(server, "ACTIVE")
    compute.resize_server(server, parts.micro.id)
    parts.until(server, "VERIFY_RESIZE")
    compute.revert_server_resize(server)
    parts.until(server, "ACTIVE")
    compute.resize_server(server, parts.micro.id)
    parts.until(server, "VERIFY_RESIZE")
    compute.confirm_server_resize(server)
    parts.until(server, "ACTIVE")
    assert {each.migration_type for each in compute.migrations() if each.server_id == server.id} == {"resize"}
    assert list(compute.server_migrations(server)) == []
    image = compute.create_server_image(server, "sdk-image", wait=True)
    parts.until(server, "ACTIVE")  # the image is ready a moment before the server is at rest
    compute.backup_server(server, "sdk-backup", "daily", 1)
    parts.until(server, "ACTIVE")
    for each in parts.conn.image.images(name="sdk-backup"):
        parts.conn.image.delete_image(each.id)
    parts.conn.image.delete_image(image.id)
    compute.migrate_server(server)
    parts.until(server, "VERIFY_RESIZE")
    compute.confirm_server_resize(server)
    parts.until(server, "ACTIVE")
    compute.live_migrate_server(server, block_migration="auto")
    parts.until(server, "ACTIVE")
    assert {each.migration_type for each in compute.migrations() if each.server_id == server.id} == {
        "resize",
        "migration",
        "live-migration",
    }
    refused(400, lambda: compute.evacuate_server(server))
    compute.delete_server(server)
    parts.until(server, "SOFT_DELETED")
    compute.restore_server(server)
    parts.until(server, "ACTIVE")
    compute.delete_server(server, force=True)
    wait_for("the server is gone", lambda: compute.find_server(server.id, all_projects=True) is None)


def test_image_proxy(simulated: OneMachine, tmp_path: Path) -> None:
    conn = connect(simulated)
    image, bits = Spy(conn.image), b"\x55" * 70_000
    made = image.create_image("sdk", disk_format="raw", container_format="bare", validate_checksum=True, data=bits)
    assert (made.status, made.size) == ("active", len(bits))
    assert image.download_image(made.id).content == bits
    assert [each.id for each in image.images(name="sdk")] == [made.id]
    assert image.find_image("sdk").id == image.get_image(made.id).id == made.id
    assert image.update_image(made.id, min_ram=64, os_distro="cirros").min_ram == 64
    image.update_image_properties(image.get_image(made.id), own_version="2")
    assert image.get_image(made.id).properties["own_version"] == "2"
    image.add_tag(made.id, "blue")
    image.remove_tag(made.id, "blue")
    assert [each.url.endswith(f"/{made.id}") for each in image.image_locations(made.id)] == [True]
    image.deactivate_image(made.id)
    image.reactivate_image(made.id)
    members(conn, image, made)
    schemas(image)
    staged(image)
    image.delete_image(made.id)
    left = methods(image_proxy.Proxy) - image.used
    assert {name for name in left if "metadef" not in name} == set(NOT_CALLED_IMAGE)


def members(conn: Connection, image: Spy, made: Any) -> None:
    image.update_image(made.id, visibility="shared")
    other = conn.identity.find_project("demo", ignore_missing=False).id
    image.add_member(made.id, member_id=other)
    assert image.get_member(other, made.id).status == image.find_member(other, made.id).status == "pending"
    assert [each.member_id for each in image.members(made.id)] == [other]
    image.update_member(other, made.id, status="accepted")
    image.remove_member(other, made.id)


def schemas(image: Spy) -> None:
    for name in ("images", "image", "members", "member", "tasks", "task"):
        assert getattr(image, f"get_{name}_schema")().properties


def staged(image: Spy) -> None:
    made = image.create_image("sdk-staged", disk_format="raw", container_format="bare")
    image.stage_image(made, data=b"\x66" * 70_000)
    assert "glance-direct" in image.get_import_info().import_methods["value"]
    assert [each.is_default for each in image.stores()] == ["true"] or list(image.stores(details=True))
    image.import_image(made)
    wait_for("the import", lambda: image.get_image(made.id).status == "active")
    assert [each.type for each in image.image_tasks(made.id)] == ["api_image_import"]
    tasks = list(image.tasks())
    assert image.get_task(tasks[0].id).status == "success"
    image.delete_image(made.id)
    made = image.create_image("sdk-bare", disk_format="raw", container_format="bare")
    made.data = b"\x77" * 600
    image.upload_image(container_format="bare", disk_format="raw", data=made.data, name="sdk-once")
    for each in list(image.images()):
        if each.name.startswith("sdk-"):
            image.delete_image(each.id)


# The SDK leaves the file of create_image open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_cloud_layer(simulated: OneMachine, tmp_path: Path) -> None:
    conn = connect(simulated)
    key = conn.create_keypair("cloud")
    assert (
        [each.name for each in conn.search_keypairs("cloud")]
        == [each.name for each in conn.list_keypairs()]
        == ["cloud"]
    )
    assert conn.get_keypair("cloud").fingerprint == key.fingerprint
    flavor = conn.create_flavor("cloud", ram=64, vcpus=1, disk=1)
    conn.set_flavor_specs(flavor.id, {"own:a": "b"})
    conn.unset_flavor_specs(flavor.id, ["own:a"])
    conn.add_flavor_access(flavor.id, conn.current_project_id) if not flavor.is_public else None
    assert conn.get_flavor_by_ram(64).name in {"cloud", "m1.nano"}
    assert conn.get_flavor_by_id(flavor.id).name == conn.get_flavor_name(flavor.id) == conn.get_flavor("cloud").name
    assert len(conn.search_flavors("cloud")) == 1
    assert "cloud" in {each.name for each in conn.list_flavors(get_extra=True)}
    group = conn.create_server_group("cloud", ["anti-affinity"])
    assert conn.get_server_group("cloud").id == conn.search_server_groups("cloud")[0].id == group.id
    assert conn.list_server_groups()[0].id == group.id
    cloud_hosts(conn)
    cloud_server(conn, group)
    cloud_images(conn, tmp_path)
    assert conn.delete_server_group("cloud")
    assert conn.delete_keypair("cloud")
    assert conn.delete_flavor("cloud")
    assert not conn.delete_flavor("cloud")


def cloud_hosts(conn: Connection) -> None:
    made = conn.create_aggregate("cloud", availability_zone="room")
    conn.add_host_to_aggregate(made.id, "sim-1")
    assert conn.set_aggregate_metadata(made.id, {"ssd": "true"}).metadata["ssd"] == "true"
    assert conn.get_aggregate("cloud").hosts == ["sim-1"]
    assert (
        [each.name for each in conn.list_aggregates()]
        == ["cloud"]
        == [each.name for each in conn.search_aggregates("cloud")]
    )
    assert "room" in conn.list_availability_zone_names()
    conn.remove_host_from_aggregate(made.id, "sim-1")
    conn.update_aggregate(made.id, name="other")
    assert conn.delete_aggregate(made.id)
    assert {each.name for each in conn.list_hypervisors()} >= {"sim-1", "sim-2"}
    conn.set_compute_quotas("demo", cores=41)
    assert conn.get_compute_quotas("demo").cores == 41
    conn.delete_compute_quotas("demo")
    assert conn.get_compute_limits().total_cores_used >= 0
    assert conn.get_compute_usage("admin") is not None


def cloud_server(conn: Connection, group: Any) -> None:
    script = base64.b64encode(b"#!/bin/sh\n").decode()
    made = conn.create_server(
        "cloud",
        image="novella-guest",
        flavor="m1.nano",
        network="demo-net",
        key_name="cloud",
        userdata=script,
        meta={"role": "web"},
        group=group.id,
        auto_ip=False,
        wait=True,
    )
    assert made.status == "ACTIVE"
    assert conn.get_server("cloud").id == conn.get_server_by_id(made.id).id == conn.get_server_id("cloud") == made.id
    assert [each.id for each in conn.search_servers("cloud")] == [made.id]
    assert [each.id for each in conn.list_servers(detailed=True)] == [made.id]
    assert conn.get_server_private_ip(made) == made.addresses["demo-net"][0]["addr"]
    assert conn.get_server_meta(made)["server_vars"]["id"] == made.id
    assert conn.get_openstack_vars(made)["id"] == made.id
    conn.set_server_metadata("cloud", {"tier": "1"})
    conn.delete_server_metadata("cloud", ["tier"])
    assert conn.update_server("cloud", name="cloud-2").name == "cloud-2"
    assert [each["name"] for each in conn.list_server_security_groups(made)] == ["default"]
    [own] = [each for each in conn.list_security_groups() if each.project_id == conn.current_project_id]
    assert conn.remove_server_security_groups(made, [own])
    assert conn.add_server_security_groups(made, [own])
    assert isinstance(conn.get_server_console(made.id), str)
    snapshot = conn.create_image_snapshot("cloud-copy", made.id, wait=True, timeout=240)
    assert snapshot.status == "active"
    wait_for("the server is at rest", lambda: not conn.compute.get_server(made.id).task_state)
    assert conn.rebuild_server(made.id, made.image.id, wait=True).status == "ACTIVE"
    assert conn.delete_image("cloud-copy", wait=True)
    conn.compute.delete_server(made.id, force=True)
    wait_for("the server is gone", lambda: conn.get_server_by_id(made.id) is None)
    assert not conn.delete_server("cloud-2", wait=True)


def cloud_images(conn: Connection, tmp_path: Path) -> None:
    bits, saved = tmp_path / "bits", tmp_path / "saved"
    bits.write_bytes(b"\x55" * 70_000)
    made = conn.create_image("cloud", filename=str(bits), disk_format="raw", container_format="bare", wait=True)
    assert (made.status, conn.get_image_name(made.id), conn.get_image_id("cloud")) == ("active", "cloud", made.id)
    assert (
        conn.get_image("cloud").id == conn.get_image_by_id(made.id).id == conn.search_images("cloud")[0].id == made.id
    )
    assert made.id in {each.id for each in conn.list_images()}
    conn.update_image_properties(made, os_distro="cirros")
    assert conn.get_image_exclude("cloud", "novella").id == made.id
    conn.download_image("cloud", output_path=str(saved))
    assert saved.read_bytes() == bits.read_bytes()
    assert conn.delete_image("cloud", wait=True)
