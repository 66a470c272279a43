"""A plan is launched with everything that belongs to it, or nothing of it is kept."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NovellaError, OverQuotaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.launch.mounts import check_mounts, mounted_disks
from provisioning.compute.launch.multipart import own_part, with_config
from provisioning.compute.launch.request import DiskRequest
from provisioning.compute.models import BlockDevice, Instance
from provisioning.launches.models import InstanceLease
from provisioning.launches.plans.plan import DataDisk, LaunchPlan, plan_of, read_plan, values_of
from provisioning.launches.services.check import check_plan
from provisioning.launches.services.launch import launch_plan
from provisioning.network import selectors as network_selectors
from provisioning.network.models import FloatingIP, Network, SecurityGroup
from provisioning.quotas.services.limits import set_limits
from provisioning.volumes.models import Volume
from tests.support.clouds import READER, Cloud, context, state_of
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def but(plan: LaunchPlan, **changes: Any) -> LaunchPlan:
    return msgspec.structs.replace(plan, **changes)


def parts_of(instance: Instance) -> list[Message]:
    archive = message_from_bytes(base64.b64decode(instance.user_data or ""))
    return [part for part in archive.walk() if not part.is_multipart()]


def texts_of(instance: Instance) -> list[str]:
    payloads = (part.get_payload(decode=True) for part in parts_of(instance))
    return [payload.decode() for payload in payloads if isinstance(payload, bytes)]


# ----- reachable from the internet ------------------------------------------------------------------------------------


def test_one_choice_gives_an_address_and_a_rule(
    cloud: Cloud, outside: Network, alice: RequestContext, plan: LaunchPlan
) -> None:
    [server] = launch_plan(alice, but(plan, reachable=True, openings=("ssh",)), "k").instances
    cloud.run()
    assert state_of(server) == ("active", None)
    [shown] = network_selectors.addresses_of([server.id])[server.id]
    assert list(shown.floating) == [FloatingIP.objects.get(with_instance=server.id).address]
    groups = SecurityGroup.objects.filter(id__in=cloud.fresh(server).security_groups).order_by("name")
    assert [group.name for group in groups] == ["default", "internet-ssh"]
    assert set(groups[1].rules.filter(direction="ingress").values_list("ethertype", "port_range_min")) == {
        ("IPv4", 22), ("IPv6", 22),
    }  # fmt: skip
    delete(alice, server.id)
    cloud.run()
    assert not FloatingIP.objects.exists()


@pytest.mark.both_databases("locks")
def test_the_next_launch_uses_the_group_again_unless_its_rules_were_changed(
    cloud: Cloud, outside: Network, alice: RequestContext, plan: LaunchPlan
) -> None:
    requested = but(plan, reachable=True, openings=("web", "ssh"))
    first, second = (launch_plan(alice, requested, key).instances[0] for key in "ab")
    assert first.security_groups == second.security_groups
    made = SecurityGroup.objects.get(name="internet-ssh-web")
    made.rules.filter(port_range_min=80).delete()
    launch_plan(alice, requested, "c")
    assert SecurityGroup.objects.filter(name="internet-ssh-web").count() == 2


def test_without_a_router_to_the_outside_it_is_refused(alice: RequestContext, plan: LaunchPlan) -> None:
    with pytest.raises(InvalidInputError) as refused:
        launch_plan(alice, but(plan, reachable=True, openings=("ssh",)), "k")
    assert refused.value.field == "reachable"
    assert not SecurityGroup.objects.filter(name="internet-ssh").exists()


def test_a_reader_of_networks_gets_no_address(outside: Network, plan: LaunchPlan, settings: Any) -> None:
    with pytest.raises(ForbiddenError):
        check_plan(context("alice", READER), but(plan, reachable=True))


def test_a_refused_launch_leaves_nothing(
    cloud: Cloud, outside: Network, alice: RequestContext, plan: LaunchPlan
) -> None:
    assert alice.project_id
    whole = but(plan, reachable=True, openings=("ssh",), disks=(DataDisk(1, "/srv"),), lease_days=1, count=3)
    set_limits(alice.project_id, {"floatingips": 2})
    with pytest.raises(OverQuotaError):
        launch_plan(alice, whole, "k")
    set_limits(alice.project_id, {"floatingips": 5, "cores": 2})
    with pytest.raises(OverQuotaError):
        launch_plan(alice, whole, "k")
    for model in (Instance, FloatingIP, Volume, BlockDevice, InstanceLease):
        assert not model.objects.exists()
    assert not SecurityGroup.objects.filter(name="internet-ssh").exists()


@pytest.mark.both_databases("locks")
def test_a_repeated_request_changes_nothing(
    cloud: Cloud, outside: Network, alice: RequestContext, plan: LaunchPlan
) -> None:
    whole = but(plan, reachable=True, openings=("ssh",), lease_days=2, password=True)
    first = launch_plan(alice, whole, "k")
    SecurityGroup.objects.filter(name="internet-ssh").delete()
    second = launch_plan(alice, whole, "k")
    assert [each.id for each in first.instances] == [each.id for each in second.instances]
    assert first.password
    assert not second.password
    assert FloatingIP.objects.count() == InstanceLease.objects.count() == 1
    assert not SecurityGroup.objects.filter(name="internet-ssh").exists()


# ----- password -------------------------------------------------------------------------------------------------------


def test_the_password_reaches_the_guest_and_is_not_stored_in_clear(
    cloud: Cloud, alice: RequestContext, plan: LaunchPlan
) -> None:
    launched = launch_plan(alice, but(plan, password=True), "k")
    [server] = launched.instances
    stored = Instance.objects.filter(id=server.id).values().get()
    assert launched.password not in str(stored)
    cloud.run()
    assert cloud.fresh(server).admin_password == ""


def test_a_server_with_a_key_gets_no_password(plan: LaunchPlan) -> None:
    assert but(plan, password=True).needs_password
    assert not but(plan, password=True, key_name="laptop").needs_password


def json_config(*command: object) -> str:
    return f"#cloud-config\n{json.dumps({'bootcmd': [command]})}\n"


# ----- data disks -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_server_mounts_its_own_disks_and_runs_the_users_data(
    cloud: Cloud, alice: RequestContext, plan: LaunchPlan
) -> None:
    cloud.agents["host-1"].serve()
    requested = but(
        plan,
        count=2,
        user_data="#!/bin/sh\necho hi\n",
        disks=(DataDisk(1, "/srv/data"), DataDisk(2)),
        delete_disks=True,
    )
    servers = launch_plan(alice, requested, "k").instances
    cloud.run()
    named = set()
    for server in map(cloud.fresh, servers):
        own, config = texts_of(server)
        assert own == "#!/bin/sh\necho hi\n"
        [command] = yaml.safe_load(config)["bootcmd"]
        assert command[-1] == "/srv/data"
        first = BlockDevice.objects.get(instance=server, position=0)
        assert str(first.volume_id).startswith(command[-2])
        named.add(command[-2])
        assert mounted_disks(server.user_data) == {command[-2]: "/srv/data"}
        assert base64.b64decode(own_part(server.user_data or "")).decode() == own
    assert len(named) == 2
    assert sorted(Volume.objects.values_list("size_gb", flat=True)) == [1, 1, 2, 2]
    for server in servers:
        delete(alice, server.id)
    cloud.run()
    assert not Volume.objects.exclude(status="deleted").exists()


@each_row(
    "mount",
    ["data", "/", "/etc", "/srv/../etc", "/srv/a b", "/srv/$(id)", "/srv/x\ny", "/srv//x", "/" + "x" * 201],
)
def test_a_directory_that_is_none_is_refused(mount: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_mounts([DiskRequest("blank", "volume", size=1, mount=mount)])
    assert refused.value.field == "mount"


@each_row(
    "config",
    [
        "",
        "#cloud-config\n[]\n",
        "#cloud-config\n" + "[" * 9999,
        json_config("sh", "-c", "x", "mount-disks", "5f1c"),
        json_config("sh", "-c", "x", "mount-disks", "5f1c", "/srv/$(id)"),
        json_config("sh", "-c", "x", "mount-disks", ["5f1c"], "/srv/x"),
        json_config("sh", "-c", "x", "mount-disks", "5f1c", 7),
    ],
)
def test_a_part_of_the_caller_names_no_mounted_disks(config: str) -> None:
    assert mounted_disks(with_config(None, config, "disks")) == {}


@each_row("user_data", [None, "", "?", base64.b64encode(b"#!/bin/sh\n").decode()])
def test_user_data_without_parts_mounts_no_disks(user_data: str | None) -> None:
    assert mounted_disks(user_data) == {}


def test_two_disks_cannot_share_a_directory_and_the_root_disk_has_its_own() -> None:
    disk = DiskRequest("blank", "volume", size=1, mount="/srv/x")
    with pytest.raises(InvalidInputError):
        check_mounts([disk, DiskRequest("blank", "volume", size=1, mount="/srv/x/")])
    with pytest.raises(InvalidInputError):
        check_mounts([DiskRequest("image", "volume", boot_index=0, size=1, mount="/srv/x")])
    assert check_mounts([DiskRequest("blank", "volume", size=1), disk]) == {1: "/srv/x"}


def test_a_full_quota_of_volumes_refuses_the_launch(alice: RequestContext, plan: LaunchPlan) -> None:
    assert alice.project_id
    set_limits(alice.project_id, {"gigabytes": 3})
    requested = but(plan, disks=(DataDisk(4),))
    with pytest.raises(OverQuotaError):
        check_plan(alice, requested)
    with pytest.raises(OverQuotaError):
        launch_plan(alice, requested, "k")
    assert not Instance.objects.exists()


def test_user_data_that_is_an_archive_stays_one() -> None:
    own = with_config(None, "#cloud-config\na: 1\n", "x").encode()
    foreign = base64.b64decode(own).replace(b"X-Novella-Parts: 1\n", b"")
    merged = with_config(base64.b64encode(foreign).decode(), {"b": 2}, "disks")
    read = message_from_bytes(base64.b64decode(merged))
    kinds = [part.get_content_type() for part in read.walk()]
    assert kinds == ["multipart/mixed", "multipart/mixed", "text/cloud-config", "text/cloud-config"]
    assert message_from_bytes(base64.b64decode(own_part(merged))).is_multipart()


@pytest.mark.slow
def test_the_script_formats_only_an_empty_disk(
    tmp_path: Path, cloud: Cloud, alice: RequestContext, plan: LaunchPlan
) -> None:
    """Run by a real shell, in which the programs of a guest are stand-ins that write down how they were called."""
    [server] = launch_plan(alice, but(plan, disks=(DataDisk(1, "/srv/data"),)), "k").instances
    [config] = texts_of(server)
    [[shell, option, script, name, serial, place]] = yaml.safe_load(config)["bootcmd"]
    (tmp_path / "by-id").mkdir()
    (tmp_path / "vdb").touch()
    (tmp_path / "by-id" / f"virtio-{serial}").symlink_to(tmp_path / "vdb")
    fstab, log = tmp_path / "fstab", tmp_path / "log"
    fstab.write_text("")
    programs = {
        "blkid": 'case "$1" in -s) echo uuid-1;; *) cat "$HERE/type" 2>/dev/null;; esac',
        "mkfs.ext4": 'echo "mkfs $@" >>"$HERE/log"',
        "mkdir": 'echo "mkdir $@" >>"$HERE/log"',
        "mount": 'echo "mount $@" >>"$HERE/log"',
        "restorecon": "true",
    }
    for program, does in programs.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / program).chmod(0o755)
    moved = script.replace("/dev/disk/by-id", str(tmp_path / "by-id")).replace("/etc/fstab", str(fstab))
    command = [shutil.which(shell) or shell, option, moved, name, serial, place]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HERE": str(tmp_path)}
    for _ in range(2):  # the second boot changes nothing
        subprocess.run(command, env=environment, check=True, timeout=60)
    disk = tmp_path / "vdb"
    assert log.read_text().splitlines() == [f"mkfs -q {disk}", "mkdir -p /srv/data", "mount /srv/data"]
    assert fstab.read_text() == "UUID=uuid-1 /srv/data auto defaults,nofail 0 2\n"
    fstab.write_text("")
    log.write_text("")
    (tmp_path / "type").write_text("TYPE=xfs")
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert log.read_text().splitlines() == ["mkdir -p /srv/data", "mount /srv/data"]


# ----- names, snippets, values ----------------------------------------------------------------------------------------


def test_names_are_numbered_where_the_placeholder_is(cloud: Cloud, alice: RequestContext, plan: LaunchPlan) -> None:
    made = launch_plan(alice, but(plan, name="web-{n}-a", count=2), "k").instances
    assert [each.name for each in made] == ["web-1-a", "web-2-a"]
    assert [each.hostname for each in made] == ["web-1-a", "web-2-a"]
    [alone] = launch_plan(alice, but(plan, name="db{n}"), "l").instances
    assert alone.name == "db1"
    disks = (DataDisk(1, name="{name}-disk-{n}"), DataDisk(1, name="log"))
    launch_plan(alice, but(plan, name="c", count=2, disks=disks), "m")
    names = BlockDevice.objects.exclude(volume_name="").values_list("volume_name", flat=True)
    assert sorted(names) == ["c-1-disk-1", "c-2-disk-2", "log-1", "log-2"]


def test_snippets_are_added_to_the_user_data(cloud: Cloud, alice: RequestContext, plan: LaunchPlan) -> None:
    requested = but(plan, user_data="#cloud-config\npackages: [vim]\n", snippets=("nginx", "nginx", "swap"))
    [server] = launch_plan(alice, requested, "k").instances
    read = [yaml.safe_load(text) for text in texts_of(server)]
    assert [sorted(each) for each in read] == [["packages"], ["packages", "runcmd"], ["swap"]]
    assert "append" in parts_of(server)[1]["Merge-Type"]
    with pytest.raises(InvalidInputError):
        launch_plan(alice, but(plan, snippets=("gone",)), "l")


def test_a_plan_comes_back_from_its_values(plan: LaunchPlan) -> None:
    whole = but(plan, disks=(DataDisk(1, "/x"),), metadata={"a": "b"}, openings=("ssh",), lease_days=3, tags=("t",))
    assert plan_of(values_of(whole)) == whole
    assert "count" not in values_of(whole)


@each_row(
    "text",
    [
        "", "[]", "null", '{"flavor": 1}', '{"unknown": 1}', '{"count": 0}', '{"count": 1e99}', '{"lease_days": -1}',
        '{"disks": [{"size_gb": 0}]}', '{"openings": ["telnet"]}', '{"metadata": {"a": 1}}', '{"networks": "x"}',
    ],
)  # fmt: skip
def test_values_that_are_no_plan_are_refused(text: str) -> None:
    with pytest.raises(NovellaError):
        read_plan(text)
