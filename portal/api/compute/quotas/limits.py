"""Limits (Compute API reference, "Limits")."""

from typing import Any

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Version, last
from portal.api.compute.quotas import schemas
from portal.api.compute.quotas.schemas import OF_NETWORKS
from portal.api.compute.quotas.views import hidden_limits
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute import selectors
from provisioning.identity import policy

_MAXIMA = {
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxServerMeta": "metadata_items",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}
_USED = {
    "totalInstancesUsed": "instances",
    "totalCoresUsed": "cores",
    "totalRAMUsed": "ram",
    "totalServerGroupsUsed": "server_groups",
}
_NETWORK_MAXIMA = {
    "maxTotalFloatingIps": "floating_ips",
    "maxSecurityGroups": "security_groups",
    "maxSecurityGroupRules": "security_group_rules",
}
_FILE_MAXIMA = {"maxPersonality": "injected_files", "maxPersonalitySize": "injected_file_content_bytes"}
_NETWORK_USED = {"totalFloatingIpsUsed": "floatingips", "totalSecurityGroupsUsed": "security_groups"}


def _asked(view: ComputeView) -> dict[str, Any]:
    return {"tenant_id": last(view.checked_query(), "tenant_id"), "version": view.microversion}


def _show(context: RequestContext, *, tenant_id: str | None, version: Version) -> dict[str, Any]:
    if tenant_id:
        project = read_id(tenant_id) or NOBODY  # Identity is not queried: a project without records has the defaults
        if project != context.project_id:
            policy.enforce(context, "os_compute_api:limits:other_project", {"project_id": project})
        context = context.in_project(project)
    found = selectors.limits_for(context, own=False)
    maxima, used = dict(_MAXIMA), dict(_USED)
    if version < (2, 36):
        maxima |= {name: OF_NETWORKS[quota] for name, quota in _NETWORK_MAXIMA.items()}
        used |= _NETWORK_USED
    if version < (2, 39):
        maxima["maxImageMeta"] = "metadata_items"
    if version < (2, 57):
        maxima |= _FILE_MAXIMA
    absolute = {name: found.limits[resource] for name, resource in maxima.items()}
    unset = hidden_limits(context.project_id, version)
    absolute |= {name: unset[quota] for name, quota in _NETWORK_MAXIMA.items() if quota in unset}
    absolute |= {name: found.usage[resource] for name, resource in used.items()}
    return {"rate": [], "absolute": absolute}


PARTS = parts(
    ComputeView,
    "limits",
    {
        "GET": Call(
            _show,
            "os_compute_api:limits",
            "Show the project's absolute limits and its usage, in use and reserved together; there are no rate limits."
            "\n\nAs in Nova, these are the limits of the project for every user; limits of a user are in the quota"
            " sets. ``tenant_id`` specifies another project, for operators; ``reserved`` is ignored, as in Nova.",
            name="limits",
            query=schemas.limits,
            more=_asked,
        )
    },
)
