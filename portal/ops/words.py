"""Names of models and fields on the operators' pages.

They are set when Django starts and are not part of migrations.
"""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db.models import Model

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
