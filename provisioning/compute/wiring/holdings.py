"""Resources of Compute that projects and users own: the kinds, the usage counted from the records, and the kinds
without a quota, with reasons.
"""

import uuid
from collections.abc import Collection, Iterator

from django.db.models import Count, QuerySet

from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.models import BlockDevice, FlavorAccess, Instance, KeyPair, ServerGroup
from provisioning.compute.records.names import key_pair_owner
from provisioning.compute.states import VmState
from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Ids, Owned
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import Port
from provisioning.quotas.registry import Counted, Holding, InLedger

_HISTORY = "The history of a server, and servers are limited."
OF_USERS = (Owned("key pairs", remove=lambda ids: KeyPair.objects.filter(user_id__in=ids).delete()),)
EC2_KINDS = (
    Kind("i", "instance", Instance),
    Kind("key", "key-pair", KeyPair),
    Kind("pg", "placement-group", ServerGroup),
)
WITH_EC2_VALUES = (Instance, BlockDevice)


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield the usage of each server that is not deleted, of its ports and addresses, and of each key pair and server
    group.

    During a resize a server counts with the larger of both flavors. During a build everything is reserved: the
    requested number of ports, each with one address until the ports exist. Afterwards the existing ports and addresses
    count; ports of a deleted server whose host is down may remain for a while.
    """
    being_built: dict[uuid.UUID, Holding] = {}
    for server, project, user, vm_state, flavor, other, interfaces in _SERVERS(scope_id):
        amounts = quota_held(flavor, other)
        built = vm_state != VmState.BUILDING
        if not built:
            requested = network.quota_of(interfaces)
            amounts["ports"] = requested["ports"]
            being_built[server] = Holding(project, server, "fixed_ips", requested["fixed_ips"], committed=False)
        for resource, amount in amounts.items():
            if amount:
                yield Holding(project, server, resource, amount, committed=built, user_id=user)
    yield from _of_ports(scope_id, being_built)
    for owner, name in _KEYS(scope_id):
        yield Holding(owner, key_pair_owner(owner, name), "key_pairs")
    for project, group, user in _GROUPS(scope_id):
        yield Holding(project, group, "server_groups", user_id=user)


_SERVERS = Counted(
    lambda: Instance.objects.exclude(vm_state=VmState.DELETED).values_list(
        "id", "project_id", "user_id", "vm_state", "flavor", "old_flavor", "requested_networks"
    )
)
_KEYS = Counted(lambda: KeyPair.objects.values_list("user_id", "name"), "user_id")
_GROUPS = Counted(lambda: ServerGroup.objects.values_list("project_id", "id", "user_id"))


def _ports() -> QuerySet[Port, tuple[uuid.UUID, uuid.UUID, int, int]]:
    """Return servers with the numbers of their ports and addresses."""
    counts = {"many": Count("pk", distinct=True), "addresses": Count("fixed_ips")}
    rows = Port.objects.filter(delete_with_device=True, device_id__isnull=False)
    return rows.values_list("project_id", "device_id").annotate(**counts).order_by()


_PORTS = Counted(_ports)


def _of_ports(scope_id: uuid.UUID | None, being_built: dict[uuid.UUID, Holding]) -> Iterator[Holding]:
    """Yield the ports and addresses of each server. ``being_built``: server → its reserved addresses."""
    for project, server, many, addresses in _PORTS(scope_id):
        built = being_built.pop(server, None) is None
        if built:
            yield Holding(project, server, "ports", many)
        if addresses:
            yield Holding(project, server, "fixed_ips", addresses, committed=built)
    yield from (held for held in being_built.values() if held.amount)


LIMITED = InLedger(
    holdings,
    {
        "compute.Instance": (
            *("instances", "cores", "ram", "ports", "fixed_ips", "metadata_items"),
            *("injected_files", "injected_file_content_bytes", "injected_file_path_bytes"),
        ),
        "compute.KeyPair": ("key_pairs",),
        "compute.ServerGroup": ("server_groups", "server_group_members"),
    },
)
UNLIMITED = {
    "compute.FlavorAccess": "Created by operators; it does not belong to the project.",
    "compute.Allocation": "One for each server, limited by the resources of the hosts.",
    "compute.MoveAllocation": "At most one for each server, limited by the resources of the hosts.",
    "compute.InstanceFault": _HISTORY,
    "compute.InstanceAction": _HISTORY,
    "compute.InstanceActionEvent": _HISTORY,
    "compute.SchedulingDecision": _HISTORY,
    "compute.Migration": _HISTORY,
    "compute.NewerGuest": "At most one for each server and host, and servers are limited.",
    "compute.InterfaceDifference": "At most one for each interface of a guest, and interfaces are limited.",
    "compute.BlockDevice": "At most twenty-six for each server, and volumes are limited.",
    "compute.InstanceTag": "At most fifty for each server, and servers are limited.",
    "compute.FirmwareState": "At most one for each shelved server, and servers are limited.",
    "compute.ConsoleToken": "Deleted after minutes, and few for each server.",
}


def shelved_server(image: Image) -> str | None:
    server = Instance.objects.filter(snapshot_image_id=image.id).exclude(vm_state=VmState.DELETED).first()
    return None if server is None else f"the shelved server {server.name} ({server.id})"


def launched_from(image_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the images among ``image_ids`` that existing servers were launched from."""
    servers = Instance.objects.filter(image_id__in=list(image_ids)).exclude(vm_state=VmState.DELETED)
    return {image_id for image_id in servers.values_list("image_id", flat=True).distinct() if image_id is not None}


def _servers(project_ids: Ids) -> int:
    return Instance.objects.filter(project_id__in=project_ids, deleted_at=None).count()


OF_PROJECTS = (
    Owned("servers", count=_servers),
    Owned("flavor accesses", remove=lambda ids: FlavorAccess.objects.filter(project_id__in=ids).delete()),
    Owned("server groups", remove=lambda ids: ServerGroup.objects.filter(project_id__in=ids).delete()),
)
