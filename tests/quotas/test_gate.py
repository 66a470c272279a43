"""Nothing that grows what somebody holds goes past the quotas; a new kind of record or way to make one fails here.

When one of these tests fails for something new: reserve or hold before the row is made and release when it goes
(``provisioning.quotas.services``); count it in the app's ``holdings`` module, or say there why no quota limits it; add
its maker to ``MAKERS`` and the way to make it to ``WAYS``.
"""

from __future__ import annotations

import ast
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import call_command
from django.db.models import ForeignKey, Model, OneToOneField
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings

from provisioning.common.errors import OverQuotaError
from provisioning.compute.models import Instance
from provisioning.compute.services import server_groups
from provisioning.compute.services.key_pairs import create_key_pair, delete_key_pair
from provisioning.identity.models import Project
from provisioning.identity.services.projects import delete_project
from provisioning.identity.services.users import delete_user
from provisioning.network import services as network
from provisioning.network.models import Network, RbacPolicy
from provisioning.quotas.limits import DEFAULTS, LEDGER
from provisioning.quotas.models import QuotaLimit
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes import services as volumes
from provisioning.volumes.models import PoolHost, StoragePool, Volume
from provisioning.volumes.services.backups import backups
from tests.support.cast import Api, People, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.limited import limited, unlimited
from tests.support.ports import guest_ports

ROOT = Path(__file__).resolve().parents[2]
V21 = "/compute/v2.1"
NOT_YET = {"groups"}
"""Limits that are kept and can be set, of what cannot be made yet."""
BOUNDS = {"per_volume_gigabytes"}
"""Limits of one thing, that no record holds."""

# ----- every kind of record is declared -------------------------------------------------------------------------------


def owned() -> Iterator[type[Model]]:
    """Our models that belong to a project or a user: by a column, or by belonging to a record that does."""
    ours = [model for model in apps.get_models(include_auto_created=True) if _is_ours(model)]
    result = {model for model in ours if model._meta.label in ("identity.Project", "identity.User")}
    while more := {model for model in ours if model not in result and _belongs(model, result)}:
        result |= more
    return iter(sorted(result, key=lambda model: model._meta.label))


def _is_ours(model: type[Model]) -> bool:
    config = apps.get_app_config(model._meta.app_label)
    return config.name.startswith("provisioning.")


def _belongs(model: type[Model], owners: set[type[Model]]) -> bool:
    return any(
        field.get_attname() in ("project_id", "user_id", "owner_id", "tenant_id", "scope_id")
        or (isinstance(field, ForeignKey | OneToOneField) and field.related_model in owners)
        for field in model._meta.concrete_fields
    )


def test_every_record_of_a_project_or_user_is_declared() -> None:
    labels = {model._meta.label for model in owned()}
    assert labels > {"compute.Instance", "network.SecurityGroupRule", "network.FixedIP"}
    undeclared = labels - limited().keys() - unlimited().keys()
    assert not undeclared, f"say in holdings.py or quotas/ownership.py what limits {sorted(undeclared)}, or why nothing"
    gone = (limited().keys() | unlimited().keys()) - {each._meta.label for each in apps.get_models(True)}
    assert not gone, f"declared, and there are no such records: {sorted(gone)}"
    assert not limited().keys() & unlimited().keys()
    assert all(len(reason) > 20 and reason.endswith(".") for reason in unlimited().values())


def test_every_limit_limits_something_or_waits_for_it() -> None:
    limiting = {resource for resources in limited().values() for resource in resources}
    assert limiting <= DEFAULTS.keys()
    assert DEFAULTS.keys() - limiting == BOUNDS


# ----- every maker is known, and passes the gate ----------------------------------------------------------------------

MAKERS = {
    "provisioning/volumes/services/lifecycle/create.py": {"Volume"},
    "provisioning/volumes/services/lifecycle/snapshots.py": {"Snapshot"},
    "provisioning/volumes/pools/deleted_data.py": {"DeletedData"},
    "provisioning/volumes/services/backups/backups.py": {"Backup"},
    "provisioning/volumes/services/groups.py": {"Group"},
    "provisioning/volumes/services/backups/backup_records.py": {"Backup"},
    "provisioning/compute/services/key_pairs.py": {"KeyPair"},
    "provisioning/compute/launch/reserve.py": {"Instance"},
    "provisioning/compute/services/server_groups.py": {"ServerGroup"},
    "provisioning/network/services/networks/networks.py": {"Network"},
    "provisioning/network/services/networks/subnets.py": {"Subnet"},
    "provisioning/network/services/addressing/subnet_pools.py": {"AddressScope", "SubnetPool"},
    "provisioning/network/services/security/address_groups.py": {"AddressGroup"},
    "provisioning/network/services/composed/rbac_policies.py": {"RbacPolicy"},
    "provisioning/network/services/floating_ips/floating_ips.py": {"FloatingIP"},
    "provisioning/network/services/ports/kept_ports.py": {"FixedIP", "Port"},
    "provisioning/network/services/composed/port_changes.py": {"Port"},
    "provisioning/network/services/routing/routers.py": {"Router"},
    "provisioning/network/services/security/security_group_rules.py": {"SecurityGroupRule"},
    "provisioning/network/services/security/security_groups.py": {"SecurityGroup", "SecurityGroupRule"},
}
WRITERS = {"provisioning/compute/launch/create.py": ({"Instance"}, "provisioning.compute.launch.reserve")}
"""What a module writes that another one has made and reserved."""
MEASURERS = {
    "provisioning/images/services/records.py": ({"Image"}, "provisioning.images.services.storage", "check_count")
}
"""What makes records that are not in the ledger, and the function that counts them in the same transaction."""
OF_THE_CLOUD = {
    "provisioning/volumes/services/updates/migrate.py": {"Volume"},
    "provisioning/volumes/inbound/lost_moves.py": {"Volume"},
    "provisioning/network/delivery/documents.py": {"Port"},
    "provisioning/network/services/addressing/addresses.py": {"FixedIP"},
    "provisioning/network/services/base/sharing.py": {"RbacPolicy"},
    "provisioning/network/services/addressing/dhcp_ports.py": {"Port"},
}
"""What the cloud makes for itself: ports that are in no project's quota, policies of what is everybody's, and volumes
that take over the data of one that is counted.
"""
ASKED_BEFORE = {
    "provisioning/network/services/addressing/ipam.py": {"FixedIP"},
    "provisioning/network/services/ports/insertion.py": {"Port"},
}
"""What is made for modules that have asked the quotas."""
IMAGINED = {"provisioning/compute/launch/dry_run.py": {"Instance"}}
"""What is made to be looked at and is never kept: these modules write nothing at all."""
GROWTH = "provisioning.quotas.services.sizes"
MAKING = {"create", "bulk_create", "get_or_create", "update_or_create"}
WRITING = MAKING | {f"a{name}" for name in MAKING} | {"save", "asave", "update", "bulk_update", "delete"}


def made_in(tree: ast.AST) -> set[str]:
    """The limited records that a module makes: ``Port(…)`` and ``Port.objects.create(…)``."""
    names = limited_names(tree)
    result = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        made = call.func
        if isinstance(made, ast.Attribute) and made.attr.removeprefix("a") in MAKING:
            result |= {node.id for node in ast.walk(made) if isinstance(node, ast.Name)}
        elif isinstance(made, ast.Name):
            result.add(made.id)
    return result & names


def limited_names(tree: ast.AST) -> set[str]:
    """The limited models that a module imports: another app may have a model of the same name."""
    result = set()
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module):
        app = str(node.module).removeprefix("provisioning.").partition(".")[0]
        result |= {alias.name for alias in node.names if f"{app}.{alias.name}" in limited()}
    return result


def calls_in(tree: ast.AST, module: str = "provisioning.quotas.services.ledger") -> set[str]:
    """The functions of the ledger, or of another module, that a module calls."""
    offered = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    of_it = {func.attr for func in called if _is_of(func, module.rpartition(".")[2])}
    return {func.id for func in called if isinstance(func, ast.Name)} & offered | of_it


def _is_of(func: ast.expr, name: str) -> bool:
    """Whether a function is called as that of a module: ``ledger.hold``."""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == name


def methods_called_in(tree: ast.AST) -> set[str]:
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {func.attr for func in called if isinstance(func, ast.Attribute)}


@pytest.mark.slow
def test_every_module_that_makes_what_is_limited_asks_the_quotas() -> None:
    result = {}
    for path in [*(ROOT / "provisioning").rglob("*.py"), *(ROOT / "portal").rglob("*.py")]:
        if "migrations" in path.parts:
            continue
        text = path.read_text()
        if not any(label.partition(".")[2] in text for label in limited()):
            continue
        tree = ast.parse(text)
        made = made_in(tree)
        name = str(path.relative_to(ROOT))
        if made and name in IMAGINED:
            assert made == IMAGINED[name]
            assert not methods_called_in(tree) & WRITING, f"{path} writes"
        elif made and name in OF_THE_CLOUD:
            assert made == OF_THE_CLOUD[name]
        elif made and name in ASKED_BEFORE:
            assert made == ASKED_BEFORE[name]
        elif made and name in MEASURERS:
            models, module, function = MEASURERS[name]
            assert (made, calls_in(tree, module)) == (models, {function})
        elif made and name in WRITERS:
            assert (made, calls_in(tree, WRITERS[name][1])) == (WRITERS[name][0], {"reserve_servers"})
        elif made:
            result[name] = made
            requested = calls_in(tree) & {"reserve", "hold", "hold_all"} | calls_in(tree, GROWTH) & {"grow"}
            assert requested, f"{path} makes {made} without asking the quotas"
    assert result == MAKERS


@pytest.mark.django_db
def test_operators_make_and_delete_nothing_limited_behind_the_services(people: People) -> None:
    request = RequestFactory().get("/admin/")
    request.user, request.context = people.operator.user, people.operator.context  # type: ignore[attr-defined]
    shown = {model._meta.label: page for model, page in admin.site._registry.items()}
    for label in shown.keys() & limited().keys():
        assert not shown[label].has_add_permission(request), f"the admin adds {label} without a service"
        assert not shown[label].has_delete_permission(request), f"the admin deletes {label} without a service"


# ----- every public way is refused at the limit, and counted below it -------------------------------------------------


class World:
    """What the ways need: alice with the APIs and the pages, and a cloud."""

    def __init__(self, people: People) -> None:
        self.people, self.cloud = people, Cloud.make()
        self.project, self.api = people.alice.project_id, Api(people.alice)
        self.pages = Client(raise_request_exception=False)
        sign_in_browser(self.pages, people.alice)
        self.net = network.create_network(self.project, "first")
        self.server = ""

    def with_server(self) -> None:
        """Let alice have a server on a host."""
        self.server = str(self.cloud.launch(self.people.alice.context).id)
        self.cloud.add_host("kelvin")
        self.cloud.run()

    def fields(self) -> dict[str, str]:
        return {"name": "web", "image": str(self.cloud.image.id), "flavor": "1", "networks": str(self.cloud.network.id)}

    def body(self) -> dict[str, Any]:
        nets = [{"uuid": str(self.cloud.network.id)}]
        return {"server": {"name": "web", "imageRef": str(self.cloud.image.id), "flavorRef": "1", "networks": nets}}


def made(answer: Any) -> bool:
    """Whether an answer says that it was made; what it says otherwise names the quota."""
    text = answer.content.decode()
    refused = "Quota exceeded" in text or "quota is exceeded" in text  # an API, a page
    if answer.status_code in (200, 201, 202, 302, 303) and not refused:
        return True
    assert refused, text[-3000:]
    return False


def done(work: Callable[[], object]) -> bool:
    try:
        work()
    except OverQuotaError:
        return False
    return True


def launch_by_api(world: World) -> bool:
    return made(world.api.post(f"{V21}/servers", world.body()))


def launch_by_page(world: World) -> bool:
    return made(world.pages.post("/instances/launch/", world.fields()))


def key_by_api(world: World) -> bool:
    return made(world.api.post(f"{V21}/os-keypairs", {"keypair": {"name": "laptop"}}))


def key_by_page(world: World) -> bool:
    return made(world.pages.post("/key-pairs/create/", {"name": "laptop", "how": "make"}))


def key_by_wizard(world: World) -> bool:
    return made(world.pages.post("/instances/launch/keys/", {"key_new_name": "laptop"}))


def network_by_service(world: World) -> bool:
    return done(lambda: network.create_network(world.project, "own"))


def subnet_by_service(world: World) -> bool:
    return done(lambda: network.create_subnet(world.net, "10.31.0.0/24"))


def port_by_service(world: World) -> bool:
    return done(lambda: network.create_port(world.project, world.cloud.network))


def port_for_a_stray_device(world: World) -> bool:
    requested = [{"network_id": str(world.cloud.network.id), "fixed_ip": None}]
    return done(lambda: network.allocate(uuid.uuid4(), world.project, requested, [], "host", "nova"))


def interface_by_api(world: World) -> bool:
    where = f"{V21}/servers/{world.server}/os-interface"
    return made(world.api.post(where, {"interfaceAttachment": {"net_id": str(world.cloud.network.id)}}))


def address_by_api(world: World) -> bool:
    body = {"addFixedIp": {"networkId": str(world.cloud.network.id)}}
    return made(world.api.post(f"{V21}/servers/{world.server}/action", body))


def rule_by_service(world: World) -> bool:
    group = network.ensure_default_security_group(world.project)
    return done(lambda: network.allow_ingress(group, "tcp", 22))


def group_by_api(world: World) -> bool:
    return made(world.api.post(f"{V21}/os-server-groups", {"server_group": {"name": "a", "policies": ["affinity"]}}))


def member_by_api(world: World) -> bool:
    group = server_groups.create_server_group(world.people.alice.context, "apart", "anti-affinity")
    return made(world.api.post(f"{V21}/servers", world.body() | {"os:scheduler_hints": {"group": str(group.id)}}))


def metadata_by_api(world: World) -> bool:
    body = world.body()
    body["server"]["metadata"] = {"a": "b"}
    return made(world.api.post(f"{V21}/servers", body))


def metadata_later(world: World) -> bool:
    server = world.api.post(f"{V21}/servers", world.body()).json()["server"]["id"]
    world.cloud.agents or world.cloud.add_host("kelvin")
    world.cloud.run()
    return made(world.api.put(f"{V21}/servers/{server}/metadata/a", {"meta": {"a": "b"}}))


def file_by_api(world: World) -> bool:
    body = world.body()
    body["server"]["personality"] = [{"path": "/a", "contents": "YQ=="}]
    return made(world.api.post(f"{V21}/servers", body))


def image_by_api(world: World) -> bool:
    return made(world.api.post("/image/v2/images", {"name": "mine"}))


def data_by_api(world: World) -> bool:
    sent = {"name": "mine", "disk_format": "raw", "container_format": "bare"}
    image = world.api.post("/image/v2/images", sent).json()["id"]
    kind = "application/octet-stream"
    where = f"/image/v2/images/{image}/file"
    answer = world.api.client.generic("PUT", where, b"\0" * 512, content_type=kind, headers=world.api.headers)
    assert answer.status_code in {204, 413}
    return bool(answer.status_code == 204)


def security_group_by_service(world: World) -> bool:
    return done(lambda: network.create_security_group(world.project, "mine"))


def router_by_service(world: World) -> bool:
    return done(lambda: network.create_router(world.project))


def floating_ip_by_service(world: World) -> bool:
    external = Network.objects.filter(external=True).first()
    if external is None:
        external = network.create_network(world.people.operator.project_id, "public")
        network.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
        network.update_network(external, {"external": True})
        external.refresh_from_db()
    return done(lambda: network.create_floating_ip(world.project, external))


def pool_by_service(world: World) -> bool:
    return done(lambda: network.create_subnet_pool(world.project, "p", ["10.90.0.0/16"]))


def scope_by_service(world: World) -> bool:
    return done(lambda: network.create_address_scope(world.project, "s", 4))


def address_group_by_service(world: World) -> bool:
    return done(lambda: network.create_address_group(world.project, "a", ["192.0.2.0/24"]))


def policy_by_service(world: World) -> bool:
    return done(lambda: share(world.project, world.net, uuid.uuid4().hex))


def policy_led_to_a_project(world: World) -> bool:
    """An operator's policy of every project becomes one of a single project."""
    every = RbacPolicy.objects.filter(object_id=world.net.id).first() or share(world.project, world.net, "*")
    return done(lambda: network.update_rbac_policy(every, uuid.uuid4().hex))


def share(project: uuid.UUID, row: Network, target: str) -> RbacPolicy:
    return network.create_rbac_policy(project, "network", row, "access_as_shared", target)


OF_SERVERS = [interface_by_api, address_by_api]
"""Ways of a server that is there."""
LAUNCHES = [launch_by_api, launch_by_page]


def with_volume(world: World) -> Volume:
    volume = Volume.objects.filter(project_id=world.project, status="available").first()
    if volume is None:
        pool = StoragePool.objects.create(name="p", driver="fake", total_gb=9, free_gb=9)
        PoolHost.objects.create(pool=pool, host=world.cloud.add_host("kelvin").host, last_seen_at=timezone.now())
        volume = volumes.Create.begin(world.people.alice.context, volumes.VolumeRequest(size_gb=1))
        Volume.objects.filter(id=volume.id).update(status="available")
    return volume


def snapshot_by_service(world: World) -> bool:
    volume = with_volume(world)
    return done(lambda: volumes.CreateSnapshot.begin(world.people.alice.context, volume.id, volumes.SnapshotRequest()))


def backup_by_service(world: World) -> bool:
    volume = with_volume(world)
    return done(lambda: backups.CreateBackup.begin(world.people.alice.context, volume.id, backups.BackupRequest()))


def volume_by_service(world: World) -> bool:
    return done(lambda: volumes.Create.begin(world.people.alice.context, volumes.VolumeRequest(size_gb=1)))


WAYS: dict[str, list[Callable[[World], bool]]] = {
    "instances": LAUNCHES,
    "cores": LAUNCHES,
    "ram": LAUNCHES,
    "ports": [*LAUNCHES, port_by_service, port_for_a_stray_device, interface_by_api],
    "fixed_ips": [*LAUNCHES, port_by_service, port_for_a_stray_device, *OF_SERVERS],
    "server_groups": [group_by_api],
    "server_group_members": [member_by_api],
    "key_pairs": [key_by_api, key_by_page, key_by_wizard],
    "networks": [network_by_service],
    "subnets": [subnet_by_service],
    "security_group_rules": [rule_by_service],
    "metadata_items": [metadata_by_api, metadata_later],
    "injected_files": [file_by_api],
    "injected_file_content_bytes": [file_by_api],
    "injected_file_path_bytes": [file_by_api],
    "image_count_total": [image_by_api],
    "image_size_total": [data_by_api],
    "security_groups": [security_group_by_service],
    "routers": [router_by_service],
    "floatingips": [floating_ip_by_service],
    "subnetpools": [pool_by_service],
    "address_scopes": [scope_by_service],
    "address_groups": [address_group_by_service],
    "rbac_policies": [policy_by_service, policy_led_to_a_project],
    "volumes": [volume_by_service],
    "snapshots": [snapshot_by_service],
    "backups": [backup_by_service],
    "backup_gigabytes": [backup_by_service],
    "gigabytes": [volume_by_service],
    "per_volume_gigabytes": [volume_by_service],
}
EACH_WAY = [(resource, way) for resource, ways in WAYS.items() for way in ways]


def test_there_is_a_way_to_everything_that_can_be_made() -> None:
    assert WAYS.keys() == DEFAULTS.keys() - NOT_YET


@pytest.mark.django_db
@pytest.mark.usefixtures("plain_static")
@pytest.mark.parametrize(
    ("resource", "way"), EACH_WAY, ids=[f"{resource}-{way.__name__}" for resource, way in EACH_WAY]
)
def test_each_way_ends_at_the_limit(people: People, resource: str, way: Callable[[World], bool]) -> None:
    world = World(people)
    if way in OF_SERVERS:
        world.with_server()
    scope = people.alice.user_id if resource == "key_pairs" else world.project
    before = usage_of(scope)[resource] + (4 if resource == "security_group_rules" else 0)
    set_limit(world.project, resource, before)
    assert not way(world)
    if resource in LEDGER:
        assert usage_of(scope)[resource] == before
    set_limit(world.project, resource, -1)
    assert way(world)
    if resource in LEDGER:
        assert usage_of(scope)[resource] > before
    if way is not port_for_a_stray_device:  # in the cloud a launch comes first, and commits with its server
        assert [str(difference) for difference in drift.find()] == []


# ----- whole lives leave nothing --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.django_db
def test_a_seeded_cloud_is_counted(settings: Settings, tmp_path: Path) -> None:
    settings.PORTAL_DIR, settings.IMAGE_DIR = tmp_path, tmp_path / "images"
    for _ in range(2):
        call_command("bootstrap", "--simulated", verbosity=0)
        assert [str(difference) for difference in drift.find()] == []
    demo = usage_of(Project.objects.get(name="demo").id)
    held = {name: demo[name] for name in ("networks", "subnets", "security_groups", "security_group_rules")}
    assert held == {"networks": 1, "subnets": 1, "security_groups": 1, "security_group_rules": 6}


@pytest.mark.slow
@pytest.mark.django_db
def test_lives_of_servers_and_keys_leave_nothing(people: People) -> None:
    alice, cloud = people.alice, Cloud.make()
    cloud.add_host("kelvin")
    port = network.create_port(alice.project_id, cloud.network)
    interfaces = [{"uuid": str(cloud.network.id)}, {"uuid": str(cloud.network.id)}, {"port": str(port.id)}]
    body = {"server": {"name": "web", "imageRef": str(cloud.image.id), "flavorRef": "1", "networks": interfaces}}
    api = Api(alice)
    server = api.post(f"{V21}/servers", body).json()["server"]["id"]
    used = usage_of(alice.project_id)
    assert (used["ports"], used["fixed_ips"]) == (3, 3), "two with the server, and its own"
    assert drift.find() == []
    cloud.run()
    assert Instance.objects.get().vm_state == "active"
    assert drift.find() == []
    create_key_pair(alice.context, "laptop")
    delete_key_pair(alice.context, "laptop")
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    assert drift.find() == []
    cloud.run()
    assert drift.find() == []
    used = {name: amount for name, amount in usage_of(alice.project_id).items() if amount}
    assert used == {"ports": 1, "fixed_ips": 1, "security_groups": 1, "security_group_rules": 4}
    assert usage_of(alice.user_id)["key_pairs"] == 0
    assert guest_ports().get().id == port.id
    assert Network.objects.count() == 1


@pytest.mark.django_db
def test_a_project_and_a_user_take_their_ledger_along(people: People) -> None:
    alice = people.alice
    network.ensure_default_security_group(alice.project_id)
    create_key_pair(alice.context, "laptop")
    set_limit(alice.project_id, "cores", 3)
    delete_user(alice.user)
    assert usage_of(alice.user_id)["key_pairs"] == 0
    delete_user(people.bob.user)
    delete_project(alice.project)
    assert not QuotaLimit.objects.exists()
    assert usage_of(alice.project_id)["security_groups"] == 0
    assert drift.find() == []
