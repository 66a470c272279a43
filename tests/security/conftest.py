"""The shared cast, and what alice's project keeps: one of each thing that another project must not see or touch."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
import time_machine
from django.conf import settings
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.test import Client
from django.utils import timezone

from compute_agent.contract.calls import ConsoleOutput
from compute_agent.contract.volume import (
    PoolContents,
    PoolContentsCall,
    StoredVolume,
    UnmanagedDisk,
    UnmanagedDisks,
    UnmanagedDisksCall,
)
from provisioning.batches.models import Batch, BatchItem
from provisioning.catalogue.services import refresh as read_catalogue
from provisioning.compute.models import Instance, InterfaceDifference, NewerGuest
from provisioning.compute.selectors.compute_services import number_of
from provisioning.compute.services.aggregates import create_aggregate
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.compute.services.server_groups import create_server_group
from provisioning.doctor.examinations.runs import run
from provisioning.drains.models import Drain, DrainItem
from provisioning.hosts import calls
from provisioning.hosts.models import Host, RejectedReport
from provisioning.identity.models import AccessRule, Role, RoleAssignment
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.services import sign_ins
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.catalog import create_endpoint, create_region, create_service
from provisioning.identity.services.credentials import create_credential, credential_id
from provisioning.identity.services.ec2 import create_ec2_credential
from provisioning.identity.services.endpoint_filters import (
    add_endpoint_to_project,
    add_group_to_project,
    create_endpoint_group,
)
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.policies import create_policy
from provisioning.identity.services.projects import set_tags
from provisioning.identity.services.roles import create_role, imply
from provisioning.identity.services.sign_ins import open_browser_session
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.trusts import TrustRequest, create_trust
from provisioning.identity.services.unified_limits import create_limits, create_registered_limits
from provisioning.identity.tokens.tokens import IssuedToken
from provisioning.images import services as images
from provisioning.images.models import ImageTask
from provisioning.jobs.models import Lease
from provisioning.launches.models import LaunchTemplate, Snippet
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import leases, snippets, templates
from provisioning.metadefs import services as metadefs
from provisioning.network import services as network
from provisioning.network.models import Delivery as NetworkDelivery
from provisioning.network.models import Network, Port, PortForwarding, SecurityGroup, SecurityGroupRule
from provisioning.network.selectors.agents import agents
from provisioning.notifications.models import Delivery
from provisioning.quotas.models import QuotaLimit
from provisioning.volumes.models import (
    Attachment,
    Backup,
    DefaultType,
    Group,
    GroupSnapshot,
    GroupType,
    PoolClaim,
    QosSpec,
    Snapshot,
    StoragePool,
    Transfer,
    TypeEncryption,
    Volume,
    VolumeType,
)
from provisioning.volumes.models import Message as VolumeMessage
from provisioning.volumes.selectors.pools import backend_of
from provisioning.volumes.services.lifecycle import manage
from tests.support.cast import People, Person, make_people, make_project, make_user
from tests.support.clouds import Cloud
from tests.support.ports import guest_ports
from tests.support.sockets import open_socket
from tests.support.standing import standing

__all__ = ["open_socket"]
SECRET = "cheshire"
"""A part of every name and text of alice's project, so that it is found wherever it leaks."""
PERSONS = ("nobody", "revoked", "expired", "reader", "member", "other", "domain", "operator")
"""Who asks: ``revoked`` is the member with a token that was given back, ``expired`` with one that has ended, ``domain``
the administrator of the domain that they all are in.
"""


@dataclass(frozen=True)
class World:
    """The cast's tokens, and the ids of alice's things by the names that routes use."""

    cloud: Cloud
    tokens: dict[str, str]
    ids: dict[str, str]

    clients: dict[bool, Client] = field(default_factory=dict)

    def browser(self, person: str, *, checks: bool = False) -> Client:
        """A browser in which this person has signed in just now; with ``checks`` it must show CSRF tokens.

        There is one of each kind for all, because Django loads its middleware anew for each.
        """
        client = self.clients.setdefault(checks, Client(raise_request_exception=False, enforce_csrf_checks=checks))
        client.cookies.clear()
        token = self.tokens[person]
        if token:
            session = SessionStore()
            session["token"] = token
            session.save()
            client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
        return client


def _given_back(person: Person) -> str:
    issued: IssuedToken = issue_token(person.user, person.project, ("password",))
    revoke_token(issued.data)
    return issued.value


def _past_its_end(person: Person) -> str:
    before = timezone.now() - timedelta(seconds=settings.TOKEN_LIFETIME + 60)
    with time_machine.travel(before, tick=True):
        return person.token


def _domain_admin() -> str:
    """Return a token for the domain, of a user who has no role on any project."""
    user = make_user("duchess")
    RoleAssignment.objects.create(user=user, domain=user.domain, role=Role.objects.get(name="admin", domain=None))
    return issue_token(user, user.domain, ("password",)).value


def _batch(alice: Person, server: Instance) -> uuid.UUID:
    """A batch of the member that has ended."""
    of = {"user_id": alice.user_id, "project_id": alice.project_id, "kind": "instances", "action": "stop"}
    now = timezone.now()
    batch = Batch.objects.create(**of, total=1, unsuccessful=1, moved_at=now, finished_at=now)
    BatchItem.objects.create(batch=batch, position=0, resource_id=str(server.id), name=SECRET, state="refused")
    return batch.id


def _session(person: Person) -> uuid.UUID:
    """Return the id of a browser's session of this person."""
    client = sign_ins.Client.of("127.0.0.1", SECRET)
    return open_browser_session(person.user, client, methods=("password",), project=person.project).id


def _identity_of(person: Person) -> dict[str, str]:
    """Put the person into a group with a role, and give them a credential of each kind; a service for the catalog."""
    user, project = person.user, person.project
    group = create_group(user.domain, "rabbits")
    add_to_group(group, user)
    grant(Role.objects.get(name="reader", domain=None), group=group, project=project)
    rule = AccessRule.objects.create(user=user, service="compute", method="GET", path="/v2.1/servers")
    key, _ = create_application_credential(user, project, SECRET, access_rules=[rule])
    credential = create_credential(user, kind="cert", blob=SECRET)
    access, _ = create_ec2_credential(user, project)
    request = TrustRequest(user, impersonation=False, project=project, roles=role_records(["reader"]))
    trust = create_trust(person.context, request)
    set_tags(project, [SECRET])
    region = create_region("looking-glass")
    service = create_service("teapot")
    endpoint = create_endpoint(service, "public", "http://127.0.0.1/teapot", region=region)
    endpoint_group = create_endpoint_group("cups", {"service_id": service.id.hex})
    add_endpoint_to_project(endpoint, project)
    add_group_to_project(endpoint_group, project)
    resource = {"service_id": service.id.hex, "resource_name": "cups"}
    [registered] = create_registered_limits([resource | {"default_limit": 1}])
    [limit] = create_limits([resource | {"resource_limit": 2, "project_id": project.id.hex, "description": SECRET}])
    prior = create_role("hatter")
    implied = create_role("dormouse")
    imply(prior, implied)
    return {
        "groups/group": str(group.id),
        "applicationcredential/object": str(key.pk),
        "credential/object": str(credential.pk),
        "endpoint/object": str(endpoint.pk),
        "group/object": str(group.pk),
        "region/object": region.pk,
        "roleassignment/object": str(RoleAssignment.objects.filter(group=group).get().pk),
        "service/object": str(service.pk),
        "credential": str(credential.pk),
        "application_credential": key.id.hex,
        "credentials/application_credential": str(key.id),
        "ec2/credential": credential_id(access),
        "application-credentials/credential": str(key.id),
        "access_rule": rule.id.hex,
        "access": access,
        "trust": trust.id.hex,
        "trust/object": str(trust.pk),
        "region": region.pk,
        "policy": create_policy("text/plain", "x").pk.hex,
        "service": service.id.hex,
        "endpoint": endpoint.id.hex,
        "endpoint_group": endpoint_group.id.hex,
        "registered_limit": registered.id.hex,
        "limit": limit.id.hex,
        "prior_role": prior.id.hex,
        "implied_role": implied.id.hex,
    }


def _define(people: People) -> None:
    """Make a private namespace of metadata definitions for alice's project, with one of everything in it."""
    inside = metadefs.Contents(
        [{"name": SECRET}],
        {SECRET: {"title": SECRET, "type": "string"}},
        [{"name": SECRET}],
        [SECRET],
    )
    metadefs.create(
        people.operator.context,
        {"namespace": SECRET, "owner": people.alice.project_id.hex, "description": SECRET},
        inside,
    )


def make_world(people: People, cloud: Cloud) -> World:
    """Give alice's project a server, an image, a key pair, a network of its own, and a host its work."""
    alice = people.alice
    create_key_pair(alice.context, SECRET)
    image = images.create(
        alice.context, name=SECRET, disk_format="raw", container_format="bare", visibility="shared", tags=[SECRET]
    )
    _define(people)
    read_catalogue()
    guests = make_project("guests")
    images.add_member(alice.context, image.id, guests.id)
    server = cloud.launch(alice.context, name=SECRET, key_name=SECRET, metadata={SECRET: SECRET}, description=SECRET)
    cloud.run()
    server = Instance.objects.select_related("host").get(id=server.id)
    assert server.vm_state == "active"
    own = network.create_network(alice.project_id, SECRET, description=SECRET)
    subnet = network.create_subnet(own, "10.66.0.0/24", name=SECRET)
    router = network.create_router(alice.project_id, name=SECRET)
    outside = network.create_network(people.operator.project_id, "outside")
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    network.update_network(outside, {"external": True})
    outside.refresh_from_db()
    floating = network.create_floating_ip(alice.project_id, outside, description=SECRET)
    pool = network.create_subnet_pool(alice.project_id, SECRET, ["10.0.0.0/8"])
    scope = network.create_address_scope(alice.project_id, SECRET, 4)
    port = guest_ports().get(device_id=server.id)
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    rule = SecurityGroupRule.objects.filter(group=group).first()
    host = Host.objects.get()
    assert rule is not None
    aggregate = create_aggregate(people.operator.context, SECRET)
    near = create_server_group(alice.context, SECRET, "affinity")
    limit = QuotaLimit.objects.create(project_id=alice.project_id, resource="cores", limit=20)
    template, snippet = _launch_template(alice, cloud, server)
    ids = _identity_of(alice)
    tokens = {
        "nobody": "",
        "revoked": _given_back(alice),
        "expired": _past_its_end(alice),
        "reader": people.bob.token,
        "member": alice.token,
        "other": people.charlie.token,
        "domain": _domain_admin(),
        "operator": people.operator.token,
    }
    ids |= {
        "server": str(server.id),
        "sign_in": str(_session(alice)),
        "signin/object": str(_session(alice)),
        "public_image": str(cloud.image.id),
        "instance": str(server.id),
        "group": str(group.id),
        "own_network": str(own.id),
        "button": "stop",
        "resources": "instances",
        "resource_kind": "instance",
        "thing": str(server.id),
        "bulk_action": "stop",
        "batch": str(_batch(alice, server)),
        "span": "24h",
        "protocol": "vnc",
        "console_token": "nothing",
        "request": server.request_id,
        "migration": "1",
        "image": str(image.id),
        "entry": "debian-13-x86-64",
        "task": str(ImageTask.objects.create(project_id=alice.project_id, image_id=image.id, message=SECRET).pk),
        "store": settings.IMAGE_STORE_ID,
        "key": SECRET,
        "name": SECRET,
        "tag": SECRET,
        "members/member": str(guests.id),
        "schemas/name": "image",
        "metadefs/name": "namespace",
        "namespace": SECRET,
        "alias": "security-group",
        "network_label": "net",
        "instances/identity": str(server.id),
        "launch-templates/identity": str(template.id),
        "snippets/identity": str(snippet.id),
        "server-groups/identity": str(near.id),
        "slug": template.slug,
        "number": "2",
        "networks/identity": str(own.id),
        "subnets/identity": str(subnet.id),
        "subnetpools/identity": str(pool.id),
        "address-scopes/identity": str(scope.id),
        "rbac-policies/identity": str(
            network.create_rbac_policy(alice.project_id, "network", own, "access_as_shared", "9" * 32).pk
        ),
        "ports/identity": str(port.id),
        "port": str(port.id),
        "security-groups/identity": str(group.id),
        "security-group-rules/identity": str(rule.id),
        "default-security-group-rules/identity": str(network.default_rules()[0].id),
        "agents/identity": str(agents(people.operator.context)[0].id),
        "network-ip-availabilities/identity": str(own.id),
        "routers/identity": str(router.pk),
        "floatingips/identity": str(floating.pk),
        "floating_ip": str(floating.pk),
        "floating-ips/identity": str(floating.pk),
        "forwarding": SECRET,
        "forwardings/forwarding": str(uuid.uuid4()),
        "outside": str(outside.id),
        "subnet": str(subnet.id),
        "address-groups/identity": str(network.create_address_group(alice.project_id, SECRET, ["192.0.2.1"]).pk),
        "host": str(host.id),
        "host_name": host.name,
        "pattern": host.name,
        "hypervisor": str(number_of(host.id)),
        "os-services/service": str(number_of(host.id)),
        "aggregate": str(aggregate.pk),
        "aggregate/object": str(aggregate.pk),
        "drain": str(_drain(host, people.operator)),
        "change": "pause",
        "schedulingdecision/object": str(server.decisions.get().pk),
        "newerguest/object": str(_newer_guest(server, host)),
        "interfacedifference/object": str(_interface_difference(server, host)),
        "delivery/object": str(_delivery()),
        "rejectedreport/object": str(_rejected_report()),
        "lease/object": _lease(),
        "server_group": str(near.id),
        "servergroup/object": str(near.pk),
        "flavor": "1",
        "project": str(alice.project_id),
        "user": str(alice.user_id),
        "domain": "default",
        "role": str(Role.objects.get(name="member").pk),
        "token": tokens["member"],
        "url": "nothing",
        "nothing": "v0/nothing",
        "kind": "user",
        "actor": str(alice.user_id),
        "action": "sign-out",
        "app_label": "compute",
        "content_type": "1",
        "object": str(alice.user.pk),
        "host/object": str(host.pk),
        "doctorrun/object": str(run("command", pause=0).pk),
        "domain/object": "default",
        "role/object": str(Role.objects.get(name="member").pk),
        "project/object": str(alice.project.pk),
        "user/object": str(alice.user.pk),
        "image/object": str(image.pk),
        "instance/object": str(server.pk),
        "network/object": str(own.pk),
        "securitygroup/object": str(group.pk),
        "port/object": str(port.pk),
        "subnet/object": str(subnet.pk),
        "subnetpool/object": str(pool.pk),
        "addressscope/object": str(scope.pk),
        "router/object": str(router.pk),
        "floatingip/object": str(floating.pk),
        "securitygrouprule/object": str(rule.pk),
        "quotalimit/object": str(limit.pk),
        "flavor/object": str(cloud.small.pk),
    }
    ids |= {
        "addressgroup/object": ids["address-groups/identity"],
        "rbacpolicy/object": ids["rbac-policies/identity"],
        "defaultsecuritygrouprule/object": str(
            network.create_default_rule({"direction": "ingress", "ethertype": "IPv6", "protocol": "udp"}).pk
        ),
        "portforwarding/object": _forwarding(outside, port),
    }
    unknown = ("agent", "cell", "certificate", "cloudpipe", "fixed_ip", "dns_domain", "dns_entry", "bulk_host")
    unknown += ("default_rule", "console", "node")
    ids |= dict.fromkeys(unknown, "nothing") | {
        "network": str(own.id),
        "security_group": str(group.id),
        "rule": str(rule.id),
        "extension": "os-keypairs",
        "class_name": "default",
        **volume_ids(alice),
        "before": "2026-01-01 00:00:00",
        "rest": "flavors/1",
    }
    return World(cloud, tokens, ids)


@pytest.fixture
@standing
def made_world(people: People) -> World:
    """Alice's things, on a host."""
    cloud = Cloud.make()
    cloud.add_host("h1")
    return make_world(people, cloud)


@pytest.fixture
def world(made_world: World, plain_static: None, monkeypatch: pytest.MonkeyPatch) -> World:
    """Alice's things, on a host that answers every question with the secret."""
    disk = UnmanagedDisk(SECRET, 1 << 30)
    stored = StoredVolume(id=made_world.ids["volume"], unmanaged={SECRET: 1 << 30})
    known = {PoolContentsCall: PoolContents([stored]), UnmanagedDisksCall: UnmanagedDisks([disk])}
    console = ConsoleOutput(text=SECRET)
    monkeypatch.setattr(calls, "call", lambda _, body, *__, **___: known.get(type(body), console))
    monkeypatch.setattr(manage, "hosts_of", lambda _: Host.objects.all())
    return made_world


@pytest.fixture
def stored_world(transactional_db: None) -> World:
    """As ``world``, committed: sockets look into the database from threads of their own."""
    cloud = Cloud.make()
    cloud.add_host("h1")
    return make_world(make_people(), cloud)


def volume_ids(alice: Person) -> dict[str, str]:
    """One of each thing of Block Storage."""
    kind = VolumeType.objects.create(name=f"{SECRET}-type", is_public=False)
    encryption = TypeEncryption.objects.create(volume_type=kind, provider="luks")
    message = VolumeMessage.objects.create(
        project_id=alice.project_id,
        resource_type="VOLUME",
        action_id="001",
        detail_id="002",
        text=SECRET,
        expires_at=timezone.now() + timedelta(days=1),
    )
    backup = Backup.objects.create(
        project_id=alice.project_id, name=SECRET, status="error", volume_id=uuid.uuid4(), size_gb=1, fail_reason=SECRET
    )
    pool = StoragePool.objects.create(name="shelf", driver="fake")
    claim = PoolClaim.objects.create(pool=pool, host=Host.objects.first(), last_seen_at=timezone.now())
    own = {"project_id": alice.project_id, "name": SECRET}
    usual = VolumeType.objects.create(name="__DEFAULT__")
    group_type = GroupType.objects.create(name="kind")
    group = Group.objects.create(**own, group_type=group_type, status="available")
    taken = GroupSnapshot.objects.create(**own, group=group, group_type=group_type, status="available")
    volume = Volume.objects.create(
        **own, size_gb=1, status="available", pool=pool, volume_type=usual, metadata={SECRET: SECRET}
    )
    offered = Volume.objects.create(**own, size_gb=1, status="awaiting-transfer", pool=pool, volume_type=usual)
    transfer = Transfer.objects.create(
        id=uuid.uuid4(), volume=offered, source_project_id=alice.project_id, name=SECRET, salt="x", key_digest="x"
    )
    used = Volume.objects.create(**own, size_gb=1, status="reserved", pool=pool, volume_type=usual)
    snapshot = Snapshot.objects.create(**own, volume=used, size_gb=1, status="available", metadata={SECRET: SECRET})
    attachment = Attachment.objects.create(volume=used, project_id=alice.project_id)
    limits = QosSpec.objects.create(name="limits")
    theirs = VolumeType.objects.create(name="theirs")
    records = {
        "storagepool": pool, "poolclaim": claim, "volumetype": kind, "qosspec": limits, "grouptype": group_type,
        "volume": volume,
        "defaulttype": DefaultType.objects.create(project_id=uuid.uuid4(), volume_type=theirs),
        "snapshot": snapshot, "backup": backup, "attachment": attachment, "message": message,
    }  # fmt: skip
    return {
        **{f"{name}/object": str(row.pk) for name, row in records.items()},
        "pool": str(pool.id),
        "volume": str(volume.id),
        "volumes/identity": str(volume.id),
        "volume-snapshots/identity": str(snapshot.id),
        "volume-backups/identity": str(backup.id),
        "snapshot": str(snapshot.id),
        "attachment": str(attachment.id),
        "transfer": str(transfer.id),
        "volume_group": str(group.id),
        "group_snapshot": str(taken.id),
        "volume_type": str(kind.id),
        "encryption": str(encryption.id),
        "qos": str(limits.id),
        "group_type": str(group_type.id),
        "message": str(message.id),
        "backup": str(backup.id),
        "backend": backend_of(pool),
        "cluster_name": "nothing",
        "verb": "enable",
        "number": "1",
        "digest": "0" * 64,
    }


def _newer_guest(server: Instance, host: Host) -> int:
    now = timezone.now()
    seen = {"attempt": 9, "record_attempt": 1, "first_seen_at": now, "last_seen_at": now}
    return NewerGuest.objects.create(instance=server, host=host, **seen).pk


def _interface_difference(server: Instance, host: Host) -> int:
    kind = InterfaceDifference.Kind.EXTRA
    return InterfaceDifference.objects.create(instance=server, host=host, mac_address="fa:16:3e:00:00:09", kind=kind).pk


def _delivery() -> int:
    """A notification that waits for a webhook, and under the same number what a host was told of a network."""
    now = timezone.now()
    values = {"subject": SECRET, "event_type": "instance.pause.end", "body": SECRET}
    made = Delivery.objects.create(message_id=uuid.uuid4(), created_at=now, due_at=now, **values)
    host = Host.objects.order_by("name").first()
    columns = {"host_id": host.id, "kind": "network", "subject_id": uuid.uuid4(), "error": SECRET}
    NetworkDelivery.objects.create(id=made.pk, **columns)
    return made.pk


def _forwarding(outside: Network, port: Port) -> str:
    """A forwarding of a floating IP of its own to a port, whatever router leads there."""
    ports = dict.fromkeys(
        ("external_port_first", "external_port_last", "internal_port_first", "internal_port_last"), 22
    )
    return str(
        PortForwarding.objects.create(
            floating_ip=network.create_floating_ip(port.project_id, outside),
            protocol="tcp",
            internal_port=port,
            internal_ip_address="10.66.0.9",
            **ports,
        ).pk
    )


def _launch_template(alice: Person, cloud: Cloud, server: Instance) -> tuple[LaunchTemplate, Snippet]:
    """Create a launch template with two versions and a snippet, and give the server a lease."""
    context = alice.context
    plan = LaunchPlan(name=SECRET, image=str(cloud.image.id), flavor="1", networks=(str(cloud.network.id),))
    template = templates.create_template(context, SECRET, "lab", plan, templates.Modes())
    templates.add_version(context, template.id, plan, templates.Modes(), default=False)
    leases.set_lease(context, server.id, 7)
    return template, snippets.create_snippet(context, SECRET, "#cloud-config\npackages: [vim]\n")


def _drain(host: Host, operator: Person) -> uuid.UUID:
    """A drain of a host that is not finished."""
    by = {"user_id": operator.user_id, "project_id": operator.project_id}
    drain = Drain.objects.create(host=host, **by)
    DrainItem.objects.create(drain=drain, position=0, instance_id=uuid.uuid4(), name=SECRET, way="stop")
    return drain.pk


def _lease() -> str:
    """The lease of a periodic job."""
    Lease.objects.get_or_create(name="events.prune", defaults={"holder": SECRET, "expires_at": timezone.now()})
    return "events.prune"


def _rejected_report() -> int:
    """A report that could not be dealt with."""
    now = timezone.now()
    host = Host.objects.order_by("name").first()
    values = {"kind": "finished", "subject_kind": "server", "subject_id": uuid.uuid4(), "generation": 1, "event": "{}"}
    return RejectedReport.objects.create(host=host, seq=1, error="boom", due_at=now, **values).pk
