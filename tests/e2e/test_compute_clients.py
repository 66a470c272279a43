"""The Compute and Image services as the unmodified ``openstack`` command line uses them, with simulated hosts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.command_line import batch, refused
from tests.support.one_machine import OneMachine, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]

HOSTS = ("sim-1", "sim-2", "sim-3")
NEW = "server create --image novella-guest --flavor m1.nano --network demo-net --wait"


@pytest.fixture(scope="module")
def simulated(restoring: OneMachine) -> OneMachine:
    return restoring


@functools.cache
def connection(url: str, clouds: str) -> Connection:
    """The SDK as the administrator: quicker to ask than a new process."""
    del url  # one for each cloud
    config = OpenStackConfig(config_files=[clouds])
    return Connection(config=config.get_one("admin"))


@pytest.fixture(autouse=True)
def _tidy(simulated: OneMachine) -> Iterator[None]:
    """Leave no server to the next test."""
    yield
    compute = connection(simulated.url, str(simulated.data / "clouds.yaml")).compute
    for server in list(compute.servers(all_projects=True)):
        compute.delete_server(server.id, force=True, ignore_missing=True)
    wait_for("the servers are gone", lambda: not list(compute.servers(all_projects=True)))


_IDS: dict[str, str] = {}


def until(cloud: OneMachine, name: str, status: str) -> None:
    """Wait until a server has a status and nothing goes on with it."""
    compute = connection(cloud.url, str(cloud.data / "clouds.yaml")).compute

    ident = id_of(cloud, name)

    def there() -> bool:
        result = compute.get_server(ident)
        return bool(result.status == status and not result.task_state)

    wait_for(f"{name} becomes {status}", there)


def id_of(cloud: OneMachine, name: str) -> str:
    """The id of a server, remembered: lists leave out what can be restored."""
    compute = connection(cloud.url, str(cloud.data / "clouds.yaml")).compute
    return _IDS.get(name) or _IDS.setdefault(name, compute.find_server(name, ignore_missing=False).id)


def do(cloud: OneMachine, command: str, name: str, status: str) -> None:
    """Run a command about a server and wait for what becomes of it."""
    ident = id_of(cloud, name)
    batch(cloud, f"{command} {ident}")
    until(cloud, name, status)


def names(rows: list[dict[str, Any]]) -> set[str]:
    return {row["Name"] for row in rows}


# ----- around servers -------------------------------------------------------------------------------------------------


def test_flavors(simulated: OneMachine) -> None:
    made, shown, listed, bare = batch(
        simulated,
        "flavor create --ram 128 --disk 1 --vcpus 1 --ephemeral 1 --swap 64 --property hw:cpu_policy=shared"
        " --private --description Own cli-flavor",
        "flavor set --project demo --property a:b=c cli-flavor",
        "flavor show cli-flavor",
        "flavor list --all --long",
        "flavor unset --project demo --property a:b cli-flavor",
        "flavor set --description Other cli-flavor",
        "flavor show cli-flavor",
    )
    assert (made["ram"], made["swap"], made["OS-FLV-EXT-DATA:ephemeral"]) == (128, 64, 1)
    assert (made["description"], made["os-flavor-access:is_public"]) == ("Own", False)
    assert shown["properties"] == {"hw:cpu_policy": "shared", "a:b": "c"}
    assert len(shown["access_project_ids"]) == 1
    [row] = [row for row in listed if row["Name"] == "cli-flavor"]
    assert row["Properties"] == shown["properties"]
    assert (bare["properties"], bare["access_project_ids"]) == ({"hw:cpu_policy": "shared"}, [])
    assert bare["description"] == "Other"
    assert "409" in refused(simulated, "flavor create --ram 128 --disk 1 --vcpus 1 cli-flavor")
    assert "cli-flavor" not in names(batch(simulated, "flavor delete cli-flavor", "flavor list --all")[0])


def test_key_pairs(simulated: OneMachine, tmp_path: Path) -> None:
    private = tmp_path / "id"
    made, listed, shown, of_demo = batch(
        simulated,
        f"keypair create --private-key {private} cli-key",
        "keypair list",
        "keypair show cli-key",
        "keypair list --user demo",
    )
    assert "OPENSSH PRIVATE KEY" in private.read_text()
    assert made["fingerprint"] == shown["fingerprint"]
    assert names(listed) == {"cli-key"}
    assert (shown["type"], of_demo) == ("ssh", [])
    assert batch(simulated, "keypair delete cli-key", "keypair list") == [[]]
    assert "404" in refused(simulated, "keypair show cli-key") or "No Keypair" in refused(
        simulated, "keypair show cli-key"
    )


def test_aggregates_and_zones(simulated: OneMachine) -> None:
    made, _, shown, listed, zones, hypervisor = batch(
        simulated,
        "aggregate create --zone room-1 --property ssd=true cli-aggregate",
        "aggregate add host cli-aggregate sim-1 -f json",
        "aggregate set --name cli-rack --property rack=7 cli-aggregate",
        "aggregate show cli-rack",
        "aggregate list --long",
        "availability zone list --compute --long",
        "hypervisor show sim-1",
    )
    assert made["availability_zone"] == "room-1"
    assert (shown["hosts"], shown["properties"]) == (["sim-1"], {"ssd": "true", "rack": "7"})
    assert (listed[0]["Name"], listed[0]["Availability Zone"]) == ("cli-rack", "room-1")
    assert {row["Host Name"] for row in zones if row["Zone Name"] == "room-1"} == {"sim-1"}
    assert hypervisor["aggregates"] == ["cli-rack"]
    assert "409" in refused(simulated, "aggregate create cli-rack")
    removed, after = batch(
        simulated,
        "aggregate unset --property rack cli-rack",
        "aggregate remove host cli-rack sim-1 -f json",
        "aggregate delete cli-rack",
        "aggregate list",
    )
    assert (removed["hosts"], after) == ([], [])


def test_hypervisors_and_services(simulated: OneMachine) -> None:
    listed, shown, services = batch(
        simulated, "hypervisor list --long", "hypervisor show sim-2", "compute service list --long"
    )
    assert {row["Hypervisor Hostname"] for row in listed} == set(HOSTS)
    assert (shown["hypervisor_hostname"], shown["state"], shown["hypervisor_type"]) == ("sim-2", "up", "fake")
    assert {row["Binary"] for row in services} == {"nova-compute", "nova-scheduler", "nova-conductor"}
    assert "vcpus" in simulated.client("hypervisor", "stats", "show", cloud="admin").stdout

    disabled, downed, back = batch(
        simulated,
        "compute service set --disable --disable-reason repairs sim-2 nova-compute",
        "compute service list --service nova-compute --host sim-2 --long",
        "compute service set --enable sim-2 nova-compute",
        "compute service set --down sim-2 nova-compute",
        "compute service list --service nova-compute --host sim-2 --long",
        "compute service set --up sim-2 nova-compute",
        "compute service list --service nova-compute --host sim-2 --long",
    )
    assert (disabled[0]["Status"], disabled[0]["Disabled Reason"]) == ("disabled", "repairs")
    assert (downed[0]["State"], downed[0]["Forced Down"]) == ("down", True)
    assert (back[0]["Status"], back[0]["State"], back[0]["Forced Down"]) == ("enabled", "up", False)


def test_server_groups(simulated: OneMachine) -> None:
    made, listed = batch(simulated, "server group create --policy anti-affinity cli-group", "server group list --long")
    assert (made["policy"], made["members"]) == ("anti-affinity", [])
    assert "cli-group" in names(listed)
    there = f"--availability-zone nova:sim-2 --hint group={made['id']}"
    [first] = batch(simulated, f"{NEW} {there} apart-1")
    assert first["OS-EXT-SRV-ATTR:host"] == "sim-2"
    assert "Error creating server" in refused(simulated, f"{NEW} {there} apart-2")
    [second, shown] = batch(simulated, "server show apart-2", "server group show cli-group")
    assert (second["status"], len(shown["members"])) == ("ERROR", 2)
    assert "group" in second["fault"]["message"]
    batch(simulated, "server group delete cli-group")


def test_usage_limits_and_quotas(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} used")
    listed, shown, limits, quota = batch(
        simulated, "usage list", "usage show", "limits show --absolute -f json", "quota show admin"
    )
    assert [row["Project"] for row in listed] == [shown["Project"]]
    assert [row["name"] for row in shown["Servers"] if row["ended_at"] is None] == ["used"]
    result = {row["Name"]: row["Value"] for row in limits}
    assert result.get("total_instances_used", result.get("totalInstancesUsed")) >= 1
    assert {row["Resource"]: row["Limit"] for row in quota}["instances"] == 10
    changed, reset = batch(
        simulated,
        "quota set --cores 41 --instances 11 demo",
        "quota show demo",
        "quota delete demo",
        "quota show demo",
    )
    assert {row["Resource"]: row["Limit"] for row in changed}["cores"] == 41
    assert {row["Resource"]: row["Limit"] for row in reset}["cores"] == 20


# ----- servers --------------------------------------------------------------------------------------------------------


def test_what_a_server_is_made_with(simulated: OneMachine, tmp_path: Path) -> None:
    script = tmp_path / "first-boot"
    script.write_text("#!/bin/sh\ntrue\n")
    made, tagged = batch(
        simulated,
        f"{NEW} --property role=web --property tier=1 --tag blue --tag green --description Made-whole"
        f" --user-data {script} --config-drive true --hostname cli-whole --availability-zone nova:sim-3 whole",
        "server list --tags blue,green --long",
    )
    assert (made["description"], made["properties"]) == ("Made-whole", {"role": "web", "tier": "1"})
    assert (sorted(made["tags"]), made["OS-EXT-SRV-ATTR:host"]) == (["blue", "green"], "sim-3")
    assert made["OS-EXT-SRV-ATTR:hostname"] == "cli-whole"
    assert names(tagged) == {"whole"}
    changed, none, result, stopped = batch(
        simulated,
        "server set --name whole-2 --description Changed --property tier=2 --tag red whole",
        "server unset --property role --tag blue whole-2",
        "server show whole-2",
        "server list --tags blue",
        "server list --name ^whole",
        "server list --status SHUTOFF",
    )
    assert (changed["description"], changed["properties"]) == ("Changed", {"tier": "2"})
    assert (sorted(changed["tags"]), none, names(result), stopped) == (["green", "red"], [], {"whole-2"}, [])
    batch(simulated, "server delete --force --wait whole-2")


def test_lists_page_and_sort(simulated: OneMachine) -> None:
    batch(simulated, "server create --image novella-guest --flavor m1.nano --nic none --min 3 --max 3 --wait many")
    up, first, rest = batch(
        simulated,
        "server list --name many --sort-column Name",
        "server list --name many --limit 2",
        "server list --name many --limit 1 --max-items 2",
    )
    assert [row["Name"] for row in up] == ["many-1", "many-2", "many-3"]
    assert len(first) == 2
    assert rest
    assert {row["Name"] for row in [*first, *rest]} <= {"many-1", "many-2", "many-3"}


def test_power_lock_and_events(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} turned")
    do(simulated, "server stop", "turned", "SHUTOFF")
    do(simulated, "server start", "turned", "ACTIVE")
    do(simulated, "server reboot --wait", "turned", "ACTIVE")
    do(simulated, "server reboot --hard", "turned", "ACTIVE")
    do(simulated, "server pause", "turned", "PAUSED")
    assert "while it is in vm_state paused" in refused(simulated, "server pause turned")
    do(simulated, "server unpause", "turned", "ACTIVE")
    do(simulated, "server suspend", "turned", "SUSPENDED")
    do(simulated, "server resume", "turned", "ACTIVE")
    do(simulated, "server set --password a-password", "turned", "ACTIVE")
    batch(simulated, "server lock --reason mail turned")
    [locked] = batch(simulated, "server list --locked")
    assert names(locked) == {"turned"}
    batch(simulated, "server unlock turned", "server dump create turned")
    events, created = batch(simulated, "server event list turned", "server list --unlocked --name turned")
    done = [row["Action"] for row in events]
    assert set(done) == {"create", "stop", "start", "reboot", "pause", "unpause", "suspend", "resume"} | {
        "lock",
        "unlock",
        "trigger_crash_dump",
        "changePassword",
    }
    request = next(row["Request ID"] for row in events if row["Action"] == "pause")
    [event] = batch(simulated, f"server event show turned {request}")
    assert event["action"] == "pause"
    assert names(created) == {"turned"}


def test_deleted_and_restored(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} mourned")
    do(simulated, "server delete", "mourned", "SOFT_DELETED")
    do(simulated, "server restore", "mourned", "ACTIVE")
    for state in ("error", "active"):
        done = simulated.client(
            "server", "set", "--state", state, "--auto-approve", id_of(simulated, "mourned"), cloud="admin"
        )
        assert done.returncode == 0, done.stderr
        until(simulated, "mourned", state.upper())


def test_rescue_and_rebuild(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} rebuilt")
    do(simulated, "server rescue --image novella-guest", "rebuilt", "RESCUE")
    do(simulated, "server unrescue", "rebuilt", "ACTIVE")
    [answer] = batch(
        simulated,
        "server rebuild --image novella-guest --name rebuilt-2 --description Anew --property a=b -f json rebuilt",
    )
    assert (answer["name"], answer["description"], answer["properties"]) == ("rebuilt-2", "Anew", {"a": "b"})
    until(simulated, "rebuilt-2", "ACTIVE")


def test_resize(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} grown")
    do(simulated, "server resize --flavor m1.micro", "grown", "VERIFY_RESIZE")
    [listed] = batch(simulated, "server migration list --server grown")
    assert (listed[0]["Type"], listed[0]["Status"]) == ("resize", "finished")
    do(simulated, "server resize revert", "grown", "ACTIVE")
    do(simulated, "server resize --flavor m1.micro", "grown", "VERIFY_RESIZE")
    do(simulated, "server resize confirm", "grown", "ACTIVE")
    [shown] = batch(simulated, "server show grown")
    assert "m1.micro" in str(shown["flavor"])


def test_snapshots_backups_and_shelving(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} copied")
    [taken] = batch(simulated, "server image create --name cli-copy --wait copied")
    assert taken["status"] == "active"
    until(simulated, "copied", "ACTIVE")
    batch(simulated, "server backup create --name cli-backup --type daily --rotate 1 --wait copied")
    until(simulated, "copied", "ACTIVE")
    do(simulated, "server shelve", "copied", "SHELVED")
    do(simulated, "server unshelve", "copied", "ACTIVE")
    do(simulated, "server shelve --offload", "copied", "SHELVED_OFFLOADED")
    assert batch(simulated, "server show copied")[0]["OS-EXT-SRV-ATTR:host"] is None
    do(simulated, "server unshelve", "copied", "ACTIVE")
    batch(simulated, "server delete --force copied", "image delete cli-copy cli-backup")


def test_interfaces_and_security_groups(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} wired")
    [before] = batch(simulated, "port list --server wired")
    batch(simulated, "server add network wired demo-net")
    ports = wait_for("the second interface", lambda: _ports(simulated, "wired", 2))
    fresh = next(port for port in ports if port["ID"] != before[0]["ID"])
    batch(simulated, f"server remove port wired {fresh['ID']}")
    wait_for("the first interface alone", lambda: _ports(simulated, "wired", 1))
    batch(simulated, "server remove security group wired default")
    assert not batch(simulated, "server show wired")[0].get("security_groups")
    batch(simulated, "server add security group wired default")
    assert batch(simulated, "server show wired")[0]["security_groups"][0]["name"] == "default"


def _ports(cloud: OneMachine, name: str, many: int) -> list[dict[str, Any]] | None:
    [result] = batch(cloud, f"port list --server {name}")
    return result if len(result) == many else None


def test_a_server_has_no_volumes(simulated: OneMachine) -> None:
    batch(simulated, f"{NEW} dry")
    assert batch(simulated, "server volume list dry") == [[]]


# ----- images ---------------------------------------------------------------------------------------------------------


def test_images(simulated: OneMachine, tmp_path: Path) -> None:
    bits = tmp_path / "bits"
    bits.write_bytes(b"\x55" * 70_000)
    made, tagged, shared, member, accepted = batch(
        simulated,
        f"image create --file {bits} --disk-format raw --property os_distro=cli --tag blue --min-ram 64 --shared"
        " cli-image",
        "image list --tag blue --property os_distro=cli --long",
        "image add project cli-image demo -f json",
        "image member list cli-image",
        "image set --property os_version=2 --protected --hidden cli-image",
        "image show cli-image",
    )
    assert (made["status"], made["size"], made["tags"], made["visibility"]) == ("active", 70_000, ["blue"], "shared")
    assert names(tagged) == {"cli-image"}
    assert shared["status"] == "pending"
    assert [row["Status"] for row in member] == ["pending"]
    assert (accepted["protected"], accepted["properties"]["os_hidden"], accepted["properties"]["os_version"]) == (
        True,
        True,
        "2",
    )
    assert "403" in refused(simulated, "image delete cli-image")
    saved = tmp_path / "saved"
    batch(
        simulated,
        "image set --unprotected --unhidden --deactivate cli-image",
        "image set --activate cli-image",
        f"image save --file {saved} cli-image",
        "image remove project cli-image demo",
        "image unset --tag blue --property os_version cli-image",
    )
    assert saved.read_bytes() == bits.read_bytes()
    [bare] = batch(simulated, "image show cli-image")
    assert (bare["tags"], "os_version" in bare["properties"]) == ([], False)
    assert "cli-image" not in names(batch(simulated, "image delete cli-image", "image list")[0])


def test_staged_and_imported(simulated: OneMachine, tmp_path: Path) -> None:
    bits = tmp_path / "bits"
    bits.write_bytes(b"\x66" * 70_000)
    info = batch(simulated, "image import info -f json")
    assert "glance-direct" in str(info)
    batch(simulated, f"image create --import --file {bits} --disk-format raw cli-staged -f json")
    wait_for("the import", lambda: batch(simulated, "image show cli-staged")[0]["status"] == "active")
    tasks, shown = batch(simulated, "image task list -f json", "image show cli-staged")
    assert "api_image_import" in {row["Type"] for row in tasks}
    assert shown["size"] == 70_000
    batch(simulated, "image delete cli-staged")
