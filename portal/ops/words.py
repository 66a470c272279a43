"""The words of the operators' pages for kinds of records and their fields.

They are set when Django starts and are in no migration: columns are named for programs, labels for people.
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
    "volumes.QosSpec": ("QoS spec", "QoS specs"),
}
"""Model → what one and several of its records are called, where that does not follow from the model's name."""
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
"""Fields whose words are not those of their names."""
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
"""Parts of names → how people write them."""


def label_of(name: str) -> str:
    """Return the label of a field: ``memory_mb_used`` is ``memory used (MiB)``."""
    if name in FIELDS:
        return FIELDS[name]
    parts = name.split("_")
    unit = next((UNITS[part] for part in parts if part in UNITS), "")
    words = [TERMS.get(part, part) for part in parts if part and part not in UNITS]
    return " ".join(words).replace("IP IPv", "IPv") + (f" ({unit})" if unit else "")


def name_all(labels: Iterable[str]) -> None:
    """Give the records of these apps, and their fields, the words for people."""
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
