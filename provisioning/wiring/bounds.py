"""Table of the limits on the number of rows of each model, so that users' requests cannot fill the database.

``tests/jobs/test_bounds.py`` fails for a model that is missing here, for an unknown quota, setting or constant, and
for a different table in the operator guide (``WRITE_BOUNDS=1`` writes it).
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeGuard

from django.conf import settings

import provisioning.batches.services
import provisioning.catalogue.index.entries
import provisioning.compute.disks.device_names
import provisioning.compute.plans.moves
import provisioning.compute.records.instance_actions
import provisioning.compute.services.remote_consoles
import provisioning.compute.services.tags
import provisioning.compute.upkeep.kept_interfaces
import provisioning.ec2.client_tokens
import provisioning.ec2.tags
import provisioning.ec2_services.internet_gateways
import provisioning.hosts.calls
import provisioning.hosts.commands
import provisioning.hosts.refused
import provisioning.identity.credentials.ec2_signatures
import provisioning.identity.lockout.lockout
import provisioning.identity.services.application_credentials
import provisioning.identity.services.credentials
import provisioning.identity.services.sign_ins
import provisioning.identity.services.trusts
import provisioning.images.records.fields
import provisioning.launches.ownership
import provisioning.metadefs.services.checks
import provisioning.network.services.base.tags
import provisioning.network.services.floating_ips.port_forwardings
import provisioning.starred.services
import provisioning.volumes.services.connections.attachments
import provisioning.volumes.services.messages

Limit = str | int | timedelta


class By(StrEnum):
    """The kind of limit on the number of rows."""

    QUOTA = "quota"
    """Each row counts in the quotas of its project or user."""
    PARENT = "number"
    """A maximum number for each parent; the number of parents has its own limit."""
    PART = "part"
    """One or a few rows for each parent."""
    AGE = "age"
    """Deleted by age; until then the rate limits of requests (``RATE_LIMITS``) limit the rows of a user."""
    OPERATORS = "operators"
    """Requests of members add no rows."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit. ``limits`` are its numbers or times, or the names of quotas and settings (in capitals)."""

    by: By
    words: str
    limits: tuple[Limit, ...] = ()


def _quota(*resources: str) -> Bound:
    return Bound(By.QUOTA, "its quota", resources)


def _number(of: str, limit: Limit) -> Bound:
    return Bound(By.PARENT, f"of each {of}", (limit,))


def _part(of: str) -> Bound:
    return Bound(By.PART, of)


def _age(words: str, *limits: Limit) -> Bound:
    return Bound(By.AGE, words, limits)


_DELETED = _age("after its end", "RETENTION_DAYS")
_MANAGERS = Bound(By.OPERATORS, "written by administrators of identity")
_OPERATORS = Bound(By.OPERATORS, "written by operators")
_HOSTS = Bound(By.OPERATORS, "written for hosts")
_CLOUD = Bound(By.OPERATORS, "written by the cloud for itself")
_UNUSED = Bound(By.OPERATORS, "not used")
_HISTORY = provisioning.compute.records.instance_actions.MOST_OF_SERVER
_OF_NAMESPACE = _number("namespace", provisioning.metadefs.services.checks.MOST)

BOUNDS: dict[str, Bound] = {
    # compute
    "compute.Instance": Bound(By.QUOTA, "its quota; deleted ones are purged by age", ("instances", "RETENTION_DAYS")),
    "compute.KeyPair": _quota("key_pairs"),
    "compute.ServerGroup": _quota("server_groups"),
    "compute.InstanceAction": _number("server", _HISTORY),
    "compute.InstanceActionEvent": _part("the steps of an action"),
    "compute.InstanceFault": _number("server", _HISTORY),
    "compute.SchedulingDecision": _number("server", _HISTORY),
    "compute.Migration": _number("server", _HISTORY),
    "compute.InstanceTag": _number("server", provisioning.compute.services.tags.MOST),
    "compute.BlockDevice": _number("server", provisioning.compute.disks.device_names.MOST_DISKS),
    "compute.Allocation": _part("one of a server"),
    "compute.MoveAllocation": _part("one of a server that moves"),
    "compute.FirmwareState": _part("one of a shelved server"),
    "compute.NewerGuest": _part("one of a server on a host"),
    "compute.InterfaceDifference": _number("server", provisioning.compute.upkeep.kept_interfaces.MOST_INTERFACES),
    "compute.ConsoleToken": Bound(
        By.AGE,
        "after its end; the number of unused tokens of a server is limited",
        ("CONSOLE_TOKEN_TTL", provisioning.compute.services.remote_consoles.MOST_UNUSED),
    ),
    "compute.Flavor": _OPERATORS,
    "compute.FlavorAccess": _OPERATORS,
    "compute.Aggregate": _OPERATORS,
    "compute.AggregateHost": _OPERATORS,
    "compute.UsageAudit": _CLOUD,
    "compute.Total": _CLOUD,
    # network
    "network.Network": _quota("networks"),
    "network.Subnet": _quota("subnets"),
    "network.SubnetPool": _quota("subnetpools"),
    "network.AddressScope": _quota("address_scopes"),
    "network.AddressGroup": _quota("address_groups"),
    "network.Port": _quota("ports"),
    "network.FixedIP": _quota("fixed_ips"),
    "network.Router": _quota("routers"),
    "network.FloatingIP": _quota("floatingips"),
    "network.SecurityGroup": _quota("security_groups"),
    "network.SecurityGroupRule": _quota("security_group_rules"),
    "network.RbacPolicy": _quota("rbac_policies"),
    "network.PortForwarding": _number(
        "floating IP", provisioning.network.services.floating_ips.port_forwardings.MOST_ELEMENTS
    ),
    "network.InternetGateway": Bound(
        By.PARENT,
        "of each project, in addition to one of each router",
        (provisioning.ec2_services.internet_gateways.MOST_ON_THE_SHELF,),
    ),
    "network.Tag": _number("network, subnet, port and so on", provisioning.network.services.base.tags.MOST),
    "network.Port_security_groups": _part("the groups of a port"),
    "network.Vpc": _part("one of a network"),
    "network.GroupVpc": _part("one of a security group"),
    "network.AutoAllocatedTopology": _part("one of a project"),
    "network.DefaultSecurityGroupRule": _OPERATORS,
    "network.Delivery": _HOSTS,
    "network.DeliveryMark": _HOSTS,
    # volumes
    "volumes.Volume": _quota("volumes"),
    "volumes.Snapshot": _quota("snapshots"),
    "volumes.Backup": _quota("backups"),
    "volumes.Group": _quota("groups"),
    "volumes.DeletedData": _quota("gigabytes"),
    "volumes.Attachment": _number("volume", provisioning.volumes.services.connections.attachments.MOST_OF_VOLUME),
    "volumes.GroupSnapshot": _part("one of some snapshots"),
    "volumes.Group_volume_types": _part("the types of a group"),
    "volumes.Transfer": _part("one of a volume"),
    "volumes.VolumeModification": _part("one of a volume"),
    "volumes.Message": _number("project", provisioning.volumes.services.messages.MOST_OF_PROJECT),
    "volumes.VolumeType": _OPERATORS,
    "volumes.VolumeTypeAccess": _OPERATORS,
    "volumes.TypeEncryption": _OPERATORS,
    "volumes.QosSpec": _OPERATORS,
    "volumes.DefaultType": _OPERATORS,
    "volumes.GroupType": _OPERATORS,
    "volumes.StoragePool": _HOSTS,
    "volumes.PoolHost": _HOSTS,
    "volumes.PoolClaim": _HOSTS,
    # images
    "images.Image": Bound(
        By.QUOTA, "its quota; deleted ones are purged by age", ("image_count_total", "RETENTION_DAYS")
    ),
    "images.ImageTag": _number("image", provisioning.images.records.fields.MAX_TAGS),
    "images.ImageProperty": _number("image", provisioning.images.records.fields.MAX_PROPERTIES),
    "images.ImageMember": _number("image", "IMAGE_MEMBER_LIMIT"),
    "images.ImageTask": _age("after its end", "TASK_RETENTION"),
    "catalogue.CatalogueIndex": _OPERATORS,
    "catalogue.CatalogueImage": _number("project", provisioning.catalogue.index.entries.MOST),
    "metadefs.MetadefNamespace": _number("project", provisioning.metadefs.services.checks.MOST_NAMESPACES),
    "metadefs.MetadefProperty": _OF_NAMESPACE,
    "metadefs.MetadefObject": _OF_NAMESPACE,
    "metadefs.MetadefTag": _OF_NAMESPACE,
    "metadefs.MetadefAssociation": _OF_NAMESPACE,
    "metadefs.MetadefResourceType": _number("cloud", provisioning.metadefs.services.checks.MOST_TYPES),
    "metadefs.LoadedMetadef": _CLOUD,
    # identity
    "identity.SignIn": Bound(
        By.PARENT,
        "of each user, for browsers and for programs",
        (
            provisioning.identity.services.sign_ins.MOST_BROWSERS,
            provisioning.identity.services.sign_ins.MOST_PROGRAMS,
        ),
    ),
    "identity.KnownAddress": _number("user", provisioning.identity.lockout.lockout.MOST_ADDRESSES),
    "identity.ApplicationCredential": _number(
        "user", provisioning.identity.services.application_credentials.MOST_OF_USER
    ),
    "identity.AccessRule": _number("user", provisioning.identity.services.application_credentials.MOST_RULES_OF_USER),
    "identity.ApplicationCredential_access_rules": _number(
        "application credential", provisioning.identity.services.application_credentials.MOST_RULES
    ),
    "identity.ApplicationCredential_roles": _part("the roles of an application credential"),
    "identity.Credential": _number("user", provisioning.identity.services.credentials.MOST_OF_USER),
    "identity.Trust": _number("user", provisioning.identity.services.trusts.MOST_OF_USER),
    "identity.TrustRole": _part("the roles of a trust"),
    "identity.RevokedToken": _age("when the token has expired", "TOKEN_LIFETIME"),
    **dict.fromkeys(
        (
            *("identity.Domain", "identity.Project", "identity.ProjectTag", "identity.User", "identity.Group"),
            *("identity.GroupMembership", "identity.Role", "identity.ImpliedRole", "identity.RoleAssignment"),
            *("identity.Region", "identity.Service", "identity.Endpoint", "identity.EndpointGroup"),
            *("identity.ProjectEndpoint", "identity.ProjectEndpointGroup", "identity.RegisteredLimit"),
            *("identity.Limit", "identity.Policy"),
        ),
        _MANAGERS,
    ),
    "identity.KeyRecord": _CLOUD,
    "identity.KeyHolder": _CLOUD,
    "quotas.QuotaLimit": _OPERATORS,
    "quotas.QuotaUsage": _part("one of each quota of a project"),
    "quotas.Reservation": _part("one for each quota that a resource counts in"),
    # EC2
    "ec2.Ec2Id": _part("one of a tagged resource, an association or an image with a chosen UUID"),
    "ec2.Ec2Tag": _number("resource", provisioning.ec2.tags.MOST),
    "ec2.CreationTags": _part("one of each kind of resource that a launch creates"),
    "ec2.MetadataOptions": _part("one of a server"),
    "ec2.GivenValue": _part("a few of each resource that EC2 shows, deleted with it"),
    "ec2.ClientToken": _age("after its request", provisioning.ec2.client_tokens.RETENTION),
    "ec2.SpentSignature": _age(
        "at the latest after its request", provisioning.identity.credentials.ec2_signatures.LONGEST_EXPIRY
    ),
    # batches
    "batches.Batch": _number("user in each project", provisioning.batches.services.MOST_OF_USER),
    "batches.BatchItem": _number("batch", provisioning.batches.services.MOST_ITEMS),
    # processors and drains
    "cpus.Processor": _part("one of each running server, at most"),
    "cpus.GuestProcessor": _part("one of a running server"),
    "drains.Drain": _DELETED,
    "drains.DrainItem": _number("drain", provisioning.compute.plans.moves.MOST),
    "launches.InstanceLease": _part("one of a server"),
    "launches.LaunchTemplate": _number("project", provisioning.launches.ownership.MOST_TEMPLATES),
    "launches.LaunchTemplateVersion": _number("launch template", provisioning.launches.ownership.MOST_VERSIONS),
    "launches.Snippet": _number("project", provisioning.launches.ownership.MOST_SNIPPETS),
    # measures
    "measures.Report": _HOSTS,
    "measures.Block": _HOSTS,
    "measures.Rejection": _HOSTS,
    "starred.Star": _number("user in each project", provisioning.starred.services.MOST),
    # hosts, events, jobs
    "hosts.HostCommand": _age("after its end", provisioning.hosts.commands.RETENTION),
    "hosts.HostCall": Bound(By.PARENT, "waiting at each host", (provisioning.hosts.calls.MOST_OF_HOST,)),
    "hosts.Host": _OPERATORS,
    "hosts.JoinToken": _OPERATORS,
    "hosts.RefusedAgent": Bound(By.PARENT, "in total", (provisioning.hosts.refused.MOST,)),
    "hosts.Restore": _OPERATORS,
    **dict.fromkeys(
        (
            *("hosts.CertificateAuthority", "hosts.HostCertificate", "hosts.CachedImage", "hosts.Leftover"),
            *("hosts.CommandTotal", "hosts.RejectedReport"),
        ),
        _HOSTS,
    ),
    "events.Event": _age("after its creation", "EVENT_RETENTION"),
    "notifications.Delivery": _age("after its delivery, at the latest after its creation", "NOTIFICATION_RETENTION"),
    "notifications.Webhook": _OPERATORS,
    "jobs.WorkerBeat": _CLOUD,
    "jobs.Lease": _CLOUD,
    "jobs.JobRun": _part("one of a message of the queue"),
    "doctor.DoctorRun": _CLOUD,
    "django_q.OrmQ": _part("messages of the queue; each is deleted when it was processed"),
    "django_q.Schedule": _CLOUD,
    **dict.fromkeys(("django_q.Task", "django_q.Success", "django_q.Failure"), _CLOUD),
    # Django
    "admin.LogEntry": _OPERATORS,
    **dict.fromkeys(
        (
            *("auth.Permission", "auth.Group", "auth.Group_permissions", "contenttypes.ContentType"),
            "sessions.Session",
        ),
        _UNUSED,
    ),
}


def value_of(limit: Limit) -> object:
    """Return the number or time of a limit; for a quota its name. Raises AttributeError for an unknown setting."""
    return getattr(settings, limit) if _is_setting(limit) else limit


def _is_setting(limit: Limit) -> TypeGuard[str]:
    return isinstance(limit, str) and limit.isupper()


def table() -> list[str]:
    """Return the lines of the guide's table: the models to which members' requests add rows, with their limits."""
    lines = ["| Record | Bound by | |", "|---|---|---|"]
    for label, bound in BOUNDS.items():
        if bound.by is not By.OPERATORS:
            lines.append(f"| `{label}` | {bound.by} | {_text(bound)} |")
    return lines


def _text(bound: Bound) -> str:
    numbers = [_number_in_words(limit) for limit in bound.limits]
    if bound.by is By.AGE or not numbers:
        return f"{bound.words}{': ' if numbers else ''}{', '.join(numbers)}"
    return f"{' and '.join(numbers)} {bound.words}" if bound.by is By.PARENT else f"{bound.words}: {', '.join(numbers)}"


def _number_in_words(limit: Limit) -> str:
    if _is_setting(limit):
        return f"`NOVELLA_{_SETTINGS.get(limit, limit)}`"
    if isinstance(limit, timedelta):
        number, unit = (limit.days, "day") if limit.days else (limit.seconds // 60, "minute")
        return f"{number} {unit}{'s' * (number != 1)}"
    return f"{limit:,}" if isinstance(limit, int) else f"`{limit}`"


_SETTINGS = {"TASK_RETENTION": "IMAGE_TASK_RETENTION"}
"""Settings whose environment variable has another name."""
