"""Every ``openstack volume`` command against a running cloud with simulated hosts, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distribution
from typing import Any

import pytest
from openstack.connection import Connection

from tests.e2e.sdk_proxies import connect
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
NOT_TRIED = {
    "consistency group ": "deprecated in Cinder; groups are in their place",
    "block storage cleanup": "the client does not say which service, and ends before it asks",
    "block storage snapshot manageable list": "the client sends no microversion; the SDK lists them here",
    "block storage volume manageable list": "tests of the Block Storage API ask for what is in a pool",
}
"""Commands that are not tried, by their beginnings."""


class Clients:
    """Runs commands and remembers which; it is the SDK that looks how far they are."""

    def __init__(self, cloud: OneMachine, sdk: Connection) -> None:
        self.cloud, self.sdk = cloud, sdk
        self.commands = {
            each.name.replace("_", " ")
            for each in distribution("python-openstackclient").entry_points
            if each.group == "openstack.volume.v3"
        }
        self.used = set[str]()

    def __call__(self, *lines: str, **environment: str) -> list[Any]:
        self._use(lines)
        return batch(self.cloud, *lines, **environment)

    def refused(self, line: str, **environment: str) -> str:
        self._use((line,))
        return refused(self.cloud, line, **environment)

    def _use(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            result = [each for each in self.commands if f"{line} ".startswith(f"{each} ")]
            self.used.add(max(result, key=len, default=""))

    def until(self, noun: str, name: str, status: str = "available") -> None:
        """Wait until a volume, snapshot or backup has a status."""

        def there() -> bool:
            result = getattr(self.sdk.block_storage, f"find_{noun}")(name, ignore_missing=False)
            assert result.status == status or "error" not in result.status, result
            return bool(result.status == status)

        wait_for(f"{noun} {name} is {status}", there)

    def gone(self, noun: str, name: str) -> None:
        look = getattr(self.sdk.block_storage, f"find_{noun}")
        wait_for(f"{noun} {name} is gone", lambda: look(name) is None)


@pytest.fixture
def do(simulated: OneMachine) -> Iterator[Clients]:
    with connect(simulated, block_storage_default_microversion="3.70") as sdk:
        yield Clients(simulated, sdk)


def test_every_command(do: Clients) -> None:
    types(do)
    volumes(do)
    snapshots(do)
    backups(do)
    attachments(do)
    groups(do)
    transfers(do)
    operators(do)
    do("volume delete --cascade cmd-disk")
    do.gone("volume", "cmd-disk")
    do("volume type delete cmd-type")
    left = do.commands - do.used
    assert sorted(each for each in left if not each.startswith(tuple(NOT_TRIED))) == []
    assert [start for start in NOT_TRIED if not any(each.startswith(start) for each in left)] == []


def types(do: Clients) -> None:
    made, qos = do(
        "volume type create --description x --private --property volume_backend_name=local --encryption-provider luks"
        " --encryption-cipher aes-xts-plain64 --encryption-key-size 256 --encryption-control-location front-end"
        " cmd-type",
        "volume qos create --consumer front-end --property total_iops_sec=100 cmd-qos",
    )
    assert (made["is_public"], made["encryption"]["provider"]) == (False, "luks")
    assert (qos["consumer"], qos["properties"]) == ("front-end", {"total_iops_sec": "100"})
    assert "already exists" in do.refused("volume type create cmd-type")
    do(
        "volume type set --description y --property key:c=d --project demo cmd-type",
        "volume type unset --property key:c --project demo --encryption-type cmd-type",
        "volume qos set --property read_bytes_sec=1000 cmd-qos",
        "volume qos unset --property total_iops_sec cmd-qos",
        "volume qos associate cmd-qos cmd-type",
    )
    assert "still associated" in do.refused("volume qos delete cmd-qos")
    shown, rows, qos, specs = do(
        "volume type show --encryption-type cmd-type",
        "volume type list --long --private",
        "volume qos show cmd-qos",
        "volume qos list",
    )
    assert (shown["description"], shown["encryption"]) == ("y", {})
    assert shown["properties"] == {"volume_backend_name": "local"}
    assert "cmd-type" in {row["Name"] for row in rows}
    assert (qos["associations"], qos["properties"]) == (["cmd-type"], {"read_bytes_sec": "1000"})
    assert "cmd-qos" in {row["Name"] for row in specs}
    do("volume qos disassociate --volume-type cmd-type cmd-qos", "volume qos delete cmd-qos")


def volumes(do: Clients) -> None:
    assert "less than the minimum of 1" in do.refused("volume create --size 0 x")
    assert "could not be found" in do.refused("volume create --size 1 --type nothing x")
    made, image = do(
        "volume create --size 1 --type cmd-type --description x --property a=b --bootable --read-only cmd-made",
        "volume create --size 1 --image novella-guest cmd-image",
    )
    assert (made["type"], made["properties"], image["bootable"]) == ("cmd-type", {"a": "b"}, True)
    (shown,) = do("volume show cmd-image")
    assert shown["volume_image_metadata"]["image_name"] == "novella-guest"
    do.until("volume", "cmd-made")
    assert "must be" in do.refused("volume set --size 1 cmd-made")
    do(
        "volume set --name cmd-disk --description y --no-property --property c=d --image-property os_distro=debian"
        " --read-write --size 2 cmd-made"
    )
    do.until("volume", "cmd-disk")
    (shown,) = do("volume show cmd-disk")
    assert (shown["size"], shown["properties"]["c"], shown["bootable"]) == (2, "d", True)
    assert shown["volume_image_metadata"] == {"os_distro": "debian"}
    do(
        "volume unset --property c --image-property os_distro cmd-disk",
        "volume set --state error --detached cmd-disk",
    )
    rows, summary, shown, pools = do(
        "volume list --name cmd-disk --long",
        "volume summary --all-projects -f json",
        "volume show cmd-disk",
        "volume backend pool list",
    )
    assert [(row["Status"], row["Properties"]) for row in rows] == [("error", {"readonly": "False"})]
    assert summary["Total Size"] >= 3
    assert "volume_image_metadata" not in shown
    do("volume set --state available cmd-disk", "volume set --type __DEFAULT__ cmd-disk")
    assert "could not be found" in do.refused("volume migrate --host nowhere@fake#local cmd-disk")
    there = next(row["Name"] for row in pools if row["Name"] != shown["os-vol-host-attr:host"])
    do(f"volume migrate --host {there} cmd-disk")
    do.until("volume", "cmd-disk")
    (shown,) = do("volume show cmd-disk")
    assert (shown["type"], shown["os-vol-host-attr:host"]) == ("__DEFAULT__", there)
    do.until("volume", "cmd-image")
    do("volume delete cmd-image")


def snapshots(do: Clients) -> None:
    (made,) = do("volume snapshot create --description x --property a=b --volume cmd-disk cmd-snap")
    assert (made["size"], made["properties"]) == (2, {"a": "b"})
    do.until("snapshot", "cmd-snap")
    assert "has snapshots" in do.refused("volume delete cmd-disk")
    do(
        "volume snapshot set --name cmd-snapshot --description y --no-property --property c=d --state available"
        " cmd-snap",
        "volume snapshot unset --property c cmd-snapshot",
    )
    shown, rows = do("volume snapshot show cmd-snapshot", "volume snapshot list --long --volume cmd-disk")
    assert (shown["description"], shown["properties"]) == ("y", {})
    assert [row["Name"] for row in rows] == ["cmd-snapshot"]
    do("volume create --snapshot cmd-snapshot cmd-of-snapshot", "volume revert cmd-snapshot")
    do.until("volume", "cmd-disk")
    do.until("volume", "cmd-of-snapshot")
    do("volume delete cmd-of-snapshot")
    (disk,) = do("volume show cmd-disk")
    do("volume snapshot delete --remote cmd-snapshot")
    do.gone("snapshot", "cmd-snapshot")
    (left,) = do.sdk.block_storage.manageable_snapshots(host=disk["os-vol-host-attr:host"])
    assert (left.source_reference, left.size) == ({"source-name": f"volume-{disk['id']}"}, 2)
    name = left.reference["source-name"]
    do(f"volume snapshot create --volume cmd-disk --remote-source source-name={name} --description x cmd-again")
    do.until("snapshot", "cmd-again")
    do("volume snapshot delete cmd-again")
    do.gone("snapshot", "cmd-again")


def backups(do: Clients) -> None:
    do("volume backup create --name cmd-saved --description x --property a=b --container c cmd-disk")
    do.until("backup", "cmd-saved")
    do("volume backup set --name cmd-backup --description y --property c=d --state available cmd-saved")
    assert "could not be found" in do.refused("volume backup unset --property c cmd-backup")  # asks at no address
    shown, rows, record = do(
        "volume backup show cmd-backup",
        "volume backup list --long",
        "volume backup record export cmd-backup -f json",
    )
    assert (shown["description"], shown["metadata"]) == ("y", {"a": "b", "c": "d"})
    assert [row["Container"] for row in rows if row["Name"] == "cmd-backup"] == ["c"]
    do("volume backup restore cmd-backup cmd-restored -f json")
    do.until("volume", "cmd-restored")
    assert "already exists" in do.refused("volume backup restore cmd-backup cmd-restored")
    do("volume backup restore --force cmd-backup cmd-restored -f json")
    do.until("volume", "cmd-restored")
    command = f"volume backup record import {record['backup_service']} {record['backup_url']}"
    assert "backup" in do.refused(f"{command} -f json").lower()
    do("volume backup delete cmd-backup", "volume delete cmd-restored")
    do.gone("backup", "cmd-backup")


def attachments(do: Clients) -> None:
    server, first, shown = do(
        "server create --image novella-guest --flavor m1.nano --network demo-net --wait cmd-server",
        "volume attachment create --server cmd-server cmd-disk",
        "volume show cmd-disk",
    )
    assert (first["Volume ID"], first["Instance ID"]) == (shown["id"], server["id"])
    assert (first["Status"], shown["status"]) == ("reserved", "reserved")
    do(f"volume attachment delete {first['ID']}")
    do.until("volume", "cmd-disk")
    (made,) = do("volume attachment create --server cmd-server cmd-disk")
    host, ident = shown["os-vol-host-attr:host"].partition("@")[0], made["ID"]
    do(f"volume attachment set --host {host} --mountpoint /dev/vdc {ident}")
    wait_for("it is connected", lambda: do.sdk.block_storage.get_attachment(ident).connection_info)
    rows, shown, _ = do(
        f"volume attachment list --volume-id {shown['id']}",
        f"volume attachment show {ident}",
        f"volume attachment complete {ident}",
        "volume show cmd-disk",
    )
    assert [(row["ID"], row["Status"]) for row in rows] == [(ident, shown["Status"])] == [(ident, "attaching")]
    assert shown["Properties"]["driver_volume_type"] == "nbd"
    do.until("volume", "cmd-disk", "in-use")
    do(f"volume attachment delete {ident}")
    do.until("volume", "cmd-disk")
    do("server add volume cmd-server cmd-disk -f json")
    do.until("volume", "cmd-disk", "in-use")
    (rows,) = do("volume attachment list --status attached")
    ident = next(row["ID"] for row in rows if row["Volume ID"] == made["Volume ID"])
    assert "Compute API" in do.refused(f"volume attachment delete {ident}")
    do("server remove volume cmd-server cmd-disk")
    do.until("volume", "cmd-disk")
    do("server delete --wait cmd-server")


def groups(do: Clients) -> None:
    kind, made = do(
        "volume group type create --description x --private cmd-group-type",
        "volume group create --volume-group-type cmd-group-type --volume-type cmd-type --name cmd-made"
        " --availability-zone nova",
    )
    assert (kind["Is Public"], made["Volume Types"]) == (False, [do("volume type show cmd-type")[0]["id"]])
    kind, shown, kinds, rows, _ = do(
        "volume group type set --description y --no-property --property a=b cmd-group-type -f json",
        "volume group set --name cmd-group --description y cmd-made -f json",
        "volume group type list",
        "volume group list",
        "volume create --type cmd-type --size 1 cmd-member",
    )
    assert (kind["Properties"], shown["Description"]) == ({"a": "b"}, "y")
    assert "cmd-group-type" in {row["Name"] for row in kinds}
    assert "cmd-group" in {row["Name"] for row in rows}
    do.until("volume", "cmd-member")
    do("volume group add volume cmd-group cmd-member")
    (shown,) = do("volume show cmd-member")
    assert shown["group_id"] == made["ID"]
    (frozen,) = do("volume group snapshot create --name cmd-frozen cmd-group")
    wait_for("it is frozen", lambda: do("volume group snapshot show cmd-frozen")[0]["Status"] == "available")
    (rows,) = do("volume group snapshot list")
    assert frozen["ID"] in {row["ID"] for row in rows}
    do("volume group snapshot delete cmd-frozen")
    wait_for("it is thawed", lambda: do("volume group snapshot list")[0] == [])
    do("volume group remove volume cmd-group cmd-member")
    assert do("volume show cmd-member")[0]["group_id"] is None
    assert "no such action" in do.refused("volume group failover cmd-group")  # the SDK names another action
    shown, kind = do(
        "volume group show cmd-group",
        "volume group type show cmd-group-type",
        "volume delete cmd-member",
        "volume group delete cmd-group",
    )
    assert (shown["Name"], kind["Description"]) == ("cmd-group", "y")
    wait_for("the group has gone", lambda: do("volume group list")[0] == [])
    do("volume group type delete cmd-group-type")


def transfers(do: Clients) -> None:
    demo = {"OS_CLOUD": "demo", "OS_CLIENT_CONFIG_FILE": str(do.cloud.data / "clouds.yaml")}
    made, rows, shown = do(
        "volume transfer request create --name cmd-transfer cmd-disk",
        "volume transfer request list",
        "volume transfer request show cmd-transfer",
    )
    assert [row["Name"] for row in rows] == [shown["name"]] == ["cmd-transfer"]
    accept = f"volume transfer request accept --auth-key {{}} {made['id']} -f json"
    assert "key" in do.refused(accept.format("wrong"), **demo)
    (taken,) = do(accept.format(made["auth_key"]), **demo)
    assert taken["volume_id"] == made["volume_id"]
    assert "No Volume found" in do.refused("volume show cmd-disk")
    (back,) = do("volume transfer request create cmd-disk", **demo)
    do(f"volume transfer request accept --auth-key {back['auth_key']} {back['id']} -f json")
    (other,) = do("volume transfer request create cmd-disk")
    do(f"volume transfer request delete {other['id']}")
    do.until("volume", "cmd-disk")


def operators(do: Clients) -> None:
    (services,) = do("volume service list --service cinder-volume --long")
    host = services[0]["Host"]
    do(f"volume service set --disable --disable-reason because {host} cinder-volume")
    (shown,) = do(f"volume service list --host {host} --long")
    assert [(row["Status"], row["Disabled Reason"]) for row in shown] == [("disabled", "because")]
    do(f"volume service set --enable {host} cinder-volume")
    do(f"volume host set --disable {host}", f"volume host set --enable {host}")
    (capabilities,) = do(f"volume backend capability show {host} -f json")
    assert "thin_provisioning" in {row["Key"] for row in capabilities}
    assert "not replicated" in do.refused(f"volume host failover --volume-backend x {host}")
    # The client requires 3.3 for messages, and sends no microversion of its own.
    with_messages = {
        "OS_CLOUD": "admin",
        "OS_CLIENT_CONFIG_FILE": str(do.cloud.data / "clouds.yaml"),
        "OS_VOLUME_API_VERSION": "3.3",
    }
    do("volume type set --property volume_backend_name=nowhere cmd-type")
    (made,) = do("volume create --size 1 --type cmd-type cmd-nowhere")
    (rows,) = do("volume message list", **with_messages)
    message = next(row for row in rows if row["Resource UUID"] == made["id"])
    assert "no pool offers" in message["User Message"]
    (shown,) = do(f"volume message show {message['ID']}", **with_messages)
    assert shown["ID"] == message["ID"]  # the SDK finds nothing else in the answer: it looks for another key
    do(f"volume message delete {message['ID']}", **with_messages)
    do("volume delete cmd-nowhere")
    clusters, filters, shown = do(
        "block storage cluster list",
        "block storage resource filter list -f json",
        "block storage resource filter show volume -f json",
    )
    assert (clusters, "volume" in {row["Resource"] for row in filters}) == ([], True)
    assert "status" in shown["Filters"]
    assert "could not be found" in do.refused("block storage cluster show x")
    assert "could not be found" in do.refused("block storage cluster set --disable x")
    assert "settings of each process" in do.refused("block storage log level list")
    assert "settings of each process" in do.refused("block storage log level set ERROR")
