"""Records that the operators' pages show, their pages in the dashboard, and the names of models and fields, which are
set when Django starts and are not part of migrations.
"""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db.models import Model

SHOWN = frozenset(
    {"compute", "doctor", "hosts", "identity", "images", "jobs", "network", "notifications", "quotas", "volumes"}
)
"""Apps whose records operators see; models registered by other apps (queues, groups) are hidden."""
IN_DASHBOARD = {
    "compute.Flavor": ("flavors", "flavor_create"),
    "identity.Domain": ("domains", "domain_create"),
    "identity.Group": ("groups", "group_create"),
    "identity.Project": ("projects", "project_create"),
    "identity.Role": ("roles", "role_create"),
    "identity.User": ("users", "user_create"),
}
"""Model → the dashboard's list and its form for a new record, used by links of the admin."""

OBJECT_PAGES = {
    "compute.Instance": "instance",
    "hosts.Host": "host",
    "identity.Domain": "domain_page",
    "identity.Group": "group_page",
    "identity.Project": "project_page",
    "identity.Role": "role_edit",
    "identity.User": "user_page",
}
"""Model → the URL name of the page of one record in the dashboard that operators may open for every project."""
TASKS = {
    "Health": (
        *("doctor.DoctorRun", "jobs.Lease", "hosts.RejectedReport", "network.Delivery", "notifications.Delivery"),
        *("compute.NewerGuest", "compute.InterfaceDifference", "volumes.Message"),
    ),
    "Hosts and placement": ("hosts.Host", "compute.Aggregate", "compute.ServerGroup", "compute.SchedulingDecision"),
    "Instances": ("compute.Instance", "compute.Flavor", "images.Image"),
    "Networks": (
        *("network.Network", "network.Subnet", "network.Port", "network.Router", "network.FloatingIP"),
        *("network.PortForwarding", "network.SubnetPool", "network.AddressScope", "network.RbacPolicy"),
    ),
    "Security groups": (
        *("network.SecurityGroup", "network.SecurityGroupRule", "network.DefaultSecurityGroupRule"),
        "network.AddressGroup",
    ),
    "Volumes and backups": (
        *("volumes.Volume", "volumes.Snapshot", "volumes.Backup", "volumes.Attachment", "volumes.StoragePool"),
        *("volumes.PoolClaim", "volumes.VolumeType", "volumes.DefaultType", "volumes.GroupType", "volumes.QosSpec"),
    ),
    "People, projects and quotas": (
        *("identity.Project", "identity.User", "identity.Group", "identity.Role", "identity.RoleAssignment"),
        *("identity.Domain", "quotas.QuotaLimit"),
    ),
    "Sessions and credentials": (
        *("identity.SignIn", "identity.ApplicationCredential", "identity.Credential", "identity.Trust"),
    ),
    "Service catalog": ("identity.Service", "identity.Endpoint", "identity.Region"),
}
"""Task → the models of the admin's start page and side bar, in order."""


KINDS = {
    "hosts.RejectedReport": ("rejected report", "rejected reports"),
    "identity.SignIn": ("sign-in", "sign-ins"),
    "network.Delivery": ("delivery of network changes", "deliveries of network changes"),
    "network.FloatingIP": ("floating IP", "floating IPs"),
    "network.RbacPolicy": ("RBAC policy", "RBAC policies"),
    "notifications.Delivery": ("delivery of notifications", "deliveries of notifications"),
    "volumes.Message": ("message about a volume", "messages about volumes"),
    "volumes.QosSpec": ("QoS spec", "QoS specs"),
}
"""Model → singular and plural, if they differ from the model's name."""
FIELDS = {
    "clock_difference": "clock",
    "email": "e-mail",
    "flavorid": "flavor ID",
    "memory_mb": "memory (MiB)",
    "root_gb": "root disk (GiB)",
    "seq": "sequence number",
    "instances_allocated": "instances",
    "last_login": "last sign-in",
    "vcpus": "number of vCPUs",
    "vcpus_allocated": "allocated vCPUs",
    "vcpus_total": "total vCPUs",
}
"""Field → its label, if it differs from the field's name."""
UNITS = {"gb": "GiB", "mb": "MiB"}
_UPPER = "api cidr cpu dhcp dns ec2 id io ip mac mtu os qos ra ram rbac snat tls url uuid vm"
TERMS = {
    **{word: word.upper() for word in _UPPER.split()},
    "ids": "IDs",
    "ipv6": "IPv6",
    "prefixlen": "prefix length",
    "sg": "security group",
    "v4": "IPv4",
    "v6": "IPv6",
    "vcpu": "vCPU",
    "vcpus": "vCPUs",
    "vms": "VMs",
    "vnic": "vNIC",
}
"""Parts of names → their spelling in labels."""


def label_of(name: str) -> str:
    """Return the label of a field: ``memory_mb_used`` is ``memory used (MiB)``."""
    if name in FIELDS:
        return FIELDS[name]
    parts = name.split("_")
    unit = next((UNITS[part] for part in parts if part in UNITS), "")
    words = [TERMS.get(part, part) for part in parts if part and part not in UNITS]
    return " ".join(words).replace("IP IPv", "IPv") + (f" ({unit})" if unit else "")


def name_all(labels: Iterable[str]) -> None:
    """Set names and labels of the models of these apps."""
    for label in labels:
        for model in apps.get_app_config(label).get_models():
            _name(model)


def _name(model: type[Model]) -> None:
    options: Any = model._meta
    if options.label in KINDS:
        options.verbose_name, options.verbose_name_plural = KINDS[options.label]
    for field in (*options.concrete_fields, *options.many_to_many):
        if field._verbose_name is None:
            field.verbose_name = label_of(field.name)
