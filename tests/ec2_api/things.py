"""What alice's project has, by EC2's ids, and the keys of everybody who may ask for it."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from portal.api.ec2.frame import Action, names
from portal.api.ec2.protocol import model
from provisioning.compute.models import BlockDevice, Instance, KeyPair
from provisioning.ec2 import ids
from provisioning.ec2.kinds import by_prefix
from provisioning.ec2_services.internet_gateways import create_internet_gateway, stand_for_routers
from provisioning.ec2_services.vpcs import create_vpc
from provisioning.hosts.models import Host
from provisioning.identity.models import Credential, Role
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.application_credentials import RequestPattern, create_application_credential
from provisioning.identity.services.credentials import credential_id, delete_credential
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.identity.services.tokens import issue_token
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import (
    FloatingIP,
    InternetGateway,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from provisioning.network.selectors import interface_for
from provisioning.volumes.models import Attachment, PoolHost, StoragePool, Volume, VolumeModification
from tests.security.conftest import SECRET, World
from tests.support.cast import People, Person, make_user
from tests.support.ec2 import Keys

PERSONS = ("reader", "member", "wide", "narrow", "barred", "revoked", "roleless", "other", "operator")
"""Who asks.  ``wide``, ``narrow`` and ``barred`` are application credentials of the member, whose keys may be used for
anything, with the role of a reader, and for another service only.  ``revoked``: the member's key that was deleted.
``roleless``: a key for the project of somebody who has no role there.  ``other``: a member of another project.
``operator``: the administrator of a third.
"""
ARGUMENTS: dict[str, str] = {
    "InstanceId": "i",
    "ImageId": "ami",
    "SourceImageId": "ami",
    "KeyPairId": "key",
    "VolumeId": "vol",
    "SnapshotId": "snap",
    "SourceSnapshotId": "snap",
    "GroupId": "sg",
    "SecurityGroupId": "sg",
    "SecurityGroupRuleId": "sgr",
    "PrefixListId": "pl",
    "AllocationId": "eipalloc",
    "AssociationId": "eipassoc",
    "VpcId": "vpc",
    "SubnetId": "subnet",
    "NetworkInterfaceId": "eni",
    "AttachmentId": "eni-attach",
    "RouteTableId": "rtb",
    "InternetGatewayId": "igw",
    "GatewayId": "igw",
    "ResourceId": "i",
    "Resource": "i",
    "Resources": "i",
    "Group": "sg",
}
"""A parameter, without its number → the beginning of the ids that it takes."""


OTHER = {("DescribePlacementGroups", "GroupIds"): "pg"}
"""Action and parameter → the beginning, where it is another one."""


@dataclass(frozen=True)
class Things:
    """Ids by their beginnings (``i``, ``vol``), other words by their names, and keys by person."""

    ids: dict[str, str]
    keys: dict[str, Keys]
    pools: dict[str, list[str]]
    """A few ids of each kind, of everybody's things."""

    def filled(self, text: str) -> str:
        """Put ids into the place of ``<i>``, ``<vol>`` and so on. Raises KeyError for what there is none of."""
        return re.sub(r"<([\w-]+)>", lambda found: self.ids[found[1]], text)


def make_things(people: People, world: World) -> Things:
    """Give everything in alice's project its EC2 id, and everybody a key."""
    for person in people.everybody():
        network.ensure_default_security_group(person.project_id)
    networking = _networking(people.alice, world)
    known = {
        prefix: _one(prefix, people.alice, world) for prefix in {*by_prefix(), *(each.prefix for each in names.KINDS)}
    }
    result = {prefix: ids.id_of(prefix, resource) for prefix, resource in known.items() if resource is not None}
    words = {
        "public-image": ids.id_of("ami", world.cloud.image.id),
        "public-subnet": ids.id_of("subnet", world.cloud.network.subnets.get().id),
        "key-name": SECRET,
        "public-key": KeyPair.objects.get(name=SECRET).public_key.strip(),
        "type": world.cloud.small.name,
        "pg-name": SECRET,
        "group-name": SecurityGroup.objects.get(pk=world.ids["group"]).name,
        "zone": "nova",
        "outside": ids.id_of("vpc", uuid.UUID(world.ids["outside"])),
        "public-ip": FloatingIP.objects.filter(project_id=people.alice.project_id).order_by("id")[0].address,
        "ingress-sgr": ids.id_of("sgr", _ingress_rule(world)),
        "spare-sg": ids.id_of("sg", network.create_security_group(people.alice.project_id, "spare").id),
        "free-vol": ids.id_of("vol", uuid.UUID(world.ids["volume"])),
        "ready-ami": ids.id_of("ami", _image_with_data(people.alice)),
        "used-vol": ids.id_of("vol", _volume_of_server(people.alice, world)),
    }
    return Things(result | words | networking, _keys(people), _pools(result))


def _pools(own: dict[str, str]) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {}
    for prefix, kind in by_prefix().items():
        rows = kind.model._default_manager.order_by("pk").values_list("pk", flat=True)[:6]
        keys = [uuid.UUID(int=key) if isinstance(key, int) else key for key in rows]
        pools[prefix] = sorted({*ids.ids_of(prefix, keys).values(), *([own[prefix]] if prefix in own else [])})
    return {prefix: pool for prefix, pool in pools.items() if pool}


def _ingress_rule(world: World) -> uuid.UUID:
    rules = SecurityGroupRule.objects.filter(group=world.ids["group"], direction="ingress")
    return rules.values_list("id", flat=True)[0]


def _networking(alice: Person, world: World) -> dict[str, str]:
    """Lead alice's network outside, and make what is at nothing yet."""
    router, outside = Router.objects.get(pk=world.ids["routers/identity"]), Network.objects.get(pk=world.ids["outside"])
    own, subnet = Network.objects.get(pk=world.ids["own_network"]), Subnet.objects.get(pk=world.ids["subnet"])
    network.update_router(router, {"gateway": network.Gateway(outside)})
    network.add_interface_by_subnet(router, subnet)
    stand_for_routers(alice.project_id, [router.id])
    modes: Any = dict.fromkeys(("ipv6_ra_mode", "ipv6_address_mode"), "dhcpv6-stateful")
    network.create_subnet(own, "fd00:66::/64", **modes)
    named = ("10.66.0.76", "10.66.0.78", "fd00:66::78")
    wide = network.create_port(alice.project_id, own, fixed_ips=[{"ip_address": each} for each in named])
    second = network.create_port(alice.project_id, own, fixed_ips=[{"ip_address": "10.66.0.79"}])
    _attach(alice, second, world.ids["server"])
    return {
        "wide-eni": ids.id_of("eni", wide.id),
        "second-attach": ids.id_of("eni-attach", second.id),
        "igw": ids.id_of("igw", InternetGateway.objects.get(router=router).id),
        "rtbassoc": ids.keep("rtbassoc", [subnet.id])[subnet.id],
        "free-eni": ids.id_of("eni", network.create_port(alice.project_id, own).id),
        "free-igw": ids.id_of("igw", create_internet_gateway(alice.project_id).id),
        "spare-vpc": ids.id_of("vpc", create_vpc(alice.project_id, "10.69.0.0/16", "spare").network_id),
        "spare-subnet": ids.id_of("subnet", network.create_subnet(own, "10.67.0.0/24").id),
    }


def _image_with_data(alice: Person) -> uuid.UUID:
    values = {"status": "active", "visibility": "private", "disk_format": "raw", "container_format": "bare", "size": 1}
    return Image.objects.create(project_id=alice.project_id, name="ready", **values).id


def _attach(alice: Person, port: Port, server: str) -> None:
    instance = Instance.objects.get(pk=server)
    interface = interface_for(alice.context, None, str(port.id), None)
    network.add_interface(instance.id, instance.project_id, interface, "h1", "nova")
    network.set_interface_status(port.id, "ACTIVE")


def _volume_of_server(alice: Person, world: World) -> uuid.UUID:
    """Let the server have a volume, the host serve its pool, and the free volume have been modified."""
    pool, now = StoragePool.objects.get(name="shelf"), timezone.now()
    PoolHost.objects.create(pool=pool, host=Host.objects.get(name="h1"), last_seen_at=now)
    used = Volume.objects.create(project_id=alice.project_id, size_gb=1, status="in-use", pool=pool)
    server: Any = {"instance_id": world.ids["server"]}
    there = Attachment.objects.create(volume=used, project_id=alice.project_id, status="attached", **server)
    BlockDevice.objects.create(
        **server, position=1, volume_id=used.id, attachment_id=there.id, plugged=True, device_name="/dev/vdd",
        source_type="volume", destination_type="volume",
    )  # fmt: skip
    VolumeModification.objects.create(
        volume_id=world.ids["volume"], original_size_gb=1, target_size_gb=1, started_at=now, ended_at=now
    )
    return used.id


def _one(prefix: str, alice: Person, world: World) -> uuid.UUID | None:
    """Return the primary key of something of alice's of this kind, None when she has none."""
    chosen = {
        "i": world.ids["server"],
        "ami": world.ids["image"],
        "vol": world.ids["volume"],
        "snap": world.ids["snapshot"],
        "vpc": world.ids["own_network"],
        "subnet": world.ids["subnet"],
        "eni": world.ids["port"],
        "eni-attach": world.ids["port"],
        "rtb": world.ids["routers/identity"],
        "sg": world.ids["group"],
        "sgr": world.ids["rule"],
        "eipalloc": world.ids["floating_ip"],
    }
    if prefix in chosen:
        return uuid.UUID(chosen[prefix])
    kind = by_prefix().get(prefix)
    if kind is None:
        return None
    field = "user_id" if kind.model is KeyPair else "project_id"
    key = kind.model._default_manager.filter(**{field: getattr(alice, field)}).values_list("pk", flat=True).first()
    return uuid.UUID(int=key) if isinstance(key, int) else key


def _keys(people: People) -> dict[str, Keys]:
    alice = people.alice
    gone = create_ec2_credential(alice.user, alice.project)
    made = {
        "reader": create_ec2_credential(people.bob.user, people.bob.project),
        "member": create_ec2_credential(alice.user, alice.project),
        "wide": of_application_credential(alice, "wide", "member", "ec2"),
        "narrow": of_application_credential(alice, "narrow", "reader", "ec2"),
        "barred": of_application_credential(alice, "barred", "member", "compute"),
        "revoked": gone,
        "roleless": create_ec2_credential(make_user("dodo"), alice.project),
        "other": create_ec2_credential(people.charlie.user, people.charlie.project),
        "operator": create_ec2_credential(people.operator.user, people.operator.project),
    }
    delete_credential(Credential.objects.get(pk=credential_id(gone[0])))
    return {person: Keys(*pair) for person, pair in made.items()}


def of_application_credential(alice: Person, name: str, role: str, service: str) -> tuple[str, str]:
    """Make a key pair as an application credential of this role does, which is for this service only."""
    roles = [Role.objects.get(name=role, domain=None)]
    rules = [RequestPattern(service, "POST", "/**"), RequestPattern("identity", "POST", "/**")]
    record, _ = create_application_credential(
        alice.user, alice.project, name, roles=roles, access_rules=rules, unrestricted=True
    )
    issued = issue_token(alice.user, alice.project, ("application_credential",), application_credential=record)
    return create_ec2_credential(alice.user, alice.project, caller=context_of(issued.data))


def prefix_of(parameter: str) -> str | None:
    """Return the beginning of the ids that a parameter takes (``Filter`` → None, ``InstanceId`` → ``i``)."""
    return ARGUMENTS.get(parameter) or ARGUMENTS.get(f"{parameter}Id")


def guesses(action: Action) -> list[dict[str, Any]]:
    """Return possible arguments of an action: the required ones, and ids. A Describe action also gets a request without
    ids.
    """
    shape = model.operation(action.name).input_shape
    if shape is None:
        return [{}]
    required, ids_taken = {}, {}
    for name, member in model.members_of(shape).items():
        prefix = OTHER.get((action.name, name)) or prefix_of(model.parameter_name(member, name))
        guess = _guess(member, f"<{prefix}>" if prefix else "x")
        if name in shape.required_members or name == "Attribute":  # which the model does not always require
            required[name] = guess
        elif name in action.takes and prefix is not None:
            ids_taken[name] = guess
    if action.changes or not ids_taken:
        return [required | ids_taken]
    return [required, required | ids_taken]


def _guess(shape: Any, text: str) -> Any:
    if shape.type_name == "list":
        return [_guess(shape.member, text)]
    if shape.type_name == "structure":
        return {name: _guess(model.members_of(shape)[name], text) for name in shape.required_members}
    if shape.type_name == "string":
        return shape.enum[0] if shape.enum else text
    return {"boolean": False, "blob": "eA=="}.get(shape.type_name, 1)
