"""Calls that set limits: of a project, and the defaults."""

from collections.abc import Mapping
from dataclasses import replace

from portal.dashboard.copy_as.calls import IMPLIED, Attribute, Call, Kind, attribute, part_of_path
from provisioning.quotas.limits import COMPUTE, PER_TYPE, VOLUME

_FORCE = attribute("force", flags=("--force", ""), terraform=IMPLIED, ansible=IMPLIED)
_PROJECT = part_of_path("project", terraform="project_id", ansible="name")
_OPTIONS = {
    "metadata_items": "--properties",
    "injected_file_content_bytes": "--injected-file-size",
    "injected_file_path_bytes": "--injected-path-size",
}
_OLD: Mapping[str, None] = dict.fromkeys(("option", "python", "ansible"))
_IN_NETWORKS: Mapping[str, tuple[str, str, str | None, str | None]] = {
    "networks": ("network", "--networks", "networks", "networks"),
    "subnets": ("subnet", "--subnets", "subnets", "subnets"),
    "ports": ("port", "--ports", "ports", "ports"),
    "routers": ("router", "--routers", "routers", "routers"),
    "floatingips": ("floatingip", "--floating-ips", "floating_ips", "floating_ips"),
    "security_groups": ("security_group", "--secgroups", "security_groups", "security_groups"),
    "security_group_rules": ("security_group_rule", "--secgroup-rules", "security_group_rules", "security_group_rules"),
    "subnetpools": ("subnetpool", "--subnetpools", "subnet_pools", "subnet_pools"),
    "rbac_policies": ("rbac_policy", "--rbac-policies", "rbac_policies", "rbac_policies"),
}
"""Resource → its names in the API and the provider, as option, in Python and in the module."""
_ONLY_IN_API = {"address_groups": "address_group", "address_scopes": "address_scope"}


def _network_limits() -> tuple[Attribute, ...]:
    known = [
        attribute(name, body=body, option=option, python=python, terraform=body, ansible=ansible)
        for name, (body, option, python, ansible) in _IN_NETWORKS.items()
    ]
    only = dict.fromkeys(("option", "python", "terraform", "ansible"))
    return (*known, *(attribute(name, body=body, **only) for name, body in _ONLY_IN_API.items()))


COMPUTE_QUOTAS = Kind(
    key="quotas",
    service="compute",
    path="os-quota-sets/{project}",
    envelope="quota_set",
    attributes=(
        *(attribute(name, **({"option": _OPTIONS[name]} if name in _OPTIONS else {})) for name in COMPUTE),
        attribute("fixed_ips", **_OLD),
        _FORCE,
        _PROJECT,
    ),
    command="quota set",
    python="compute.update_quota_set",
    terraform="openstack_compute_quotaset_v2",
    ansible="openstack.cloud.quota",
    method="PUT",
)
NETWORK_QUOTAS = Kind(
    key="quotas",
    service="network",
    path="quotas/{project}",
    envelope="quota",
    attributes=(*_network_limits(), _FORCE, _PROJECT),
    command="quota set",
    python="network.update_quota",
    terraform="openstack_networking_quota_v2",
    ansible="openstack.cloud.quota",
    method="PUT",
)
VOLUME_QUOTAS = Kind(
    key="quotas",
    service="volume",
    path="os-quota-sets/{project}",
    envelope="quota_set",
    attributes=(*map(attribute, VOLUME), _PROJECT),
    command="quota set",
    python="block_storage.update_quota_set",
    terraform="openstack_blockstorage_quotaset_v3",
    ansible="openstack.cloud.quota",
    method="PUT",
)


def _defaults(kind: Kind) -> Kind:
    return replace(
        kind,
        path="os-quota-class-sets/{project}",
        envelope="quota_class_set",
        attributes=(
            *(each for each in kind.attributes if each.name not in {"force", "project", "fixed_ips"}),
            part_of_path("project"),
        ),
        command="quota set --default",
        python=(kind.python or "").replace("quota_set", "quota_class_set"),
        terraform=None,
        ansible=None,
    )


COMPUTE_DEFAULTS, VOLUME_DEFAULTS = _defaults(COMPUTE_QUOTAS), _defaults(VOLUME_QUOTAS)


def _of_type(kind: Kind, resource: str, limited: str) -> Kind:
    """Return the kind of a limit of one volume type: the command has the type as an option of its own."""
    own = attribute(resource, option=f"--{limited}", python=None, terraform=None, ansible=None)
    typed = attribute("volume_type", body=IMPLIED, python=IMPLIED, terraform=IMPLIED, ansible=IMPLIED)
    return replace(kind, attributes=(own, typed, kind.attributes[-1]), python=None, terraform=None, ansible=None)


def limit_calls(project: str, limits: Mapping[str, int]) -> tuple[list[Call], list[str]]:
    """Return the calls that set limits of a project, and the resources whose limits no call can set. An empty project
    means the defaults.
    """
    kinds = (COMPUTE_QUOTAS, NETWORK_QUOTAS, VOLUME_QUOTAS) if project else (COMPUTE_DEFAULTS, VOLUME_DEFAULTS)
    fixed = {"project": project or "default", **({"force": True} if project else {})}
    calls, left = [], dict(limits)
    for kind in kinds:
        known = {each.name for each in kind.attributes}
        own = {name: left.pop(name) for name in limits if name in known}
        if own:
            calls.append(Call(kind, own | {name: value for name, value in fixed.items() if name in known}))
    for name in [*left]:
        prefix = next((each for each in PER_TYPE if name.startswith(each)), "")
        if prefix:
            volume_type = name.removeprefix(prefix)
            kind = _of_type(kinds[-1], name, prefix.rstrip("_"))
            calls.append(Call(kind, {name: left.pop(name), "volume_type": volume_type, "project": fixed["project"]}))
    return calls, [*left]
