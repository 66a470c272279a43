"""Limits (Compute API reference, "Limits")."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.quotas import schemas as quota_schemas
from portal.api.compute.quotas.schemas import OF_NETWORKS
from portal.api.compute.quotas.views import hidden_limits
from portal.api.compute.schemas import last
from provisioning.common.ids import NOBODY, read_id
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


class LimitsView(ComputeView):
    """``GET /limits``."""

    rules = {"GET": "os_compute_api:limits"}
    queries = {"GET": quota_schemas.limits}

    def get(self, request: Request) -> Response:
        """Show the project's absolute limits and its usage, in use and reserved together; there are no rate limits.

        As in Nova, these are the limits of the project for every user; limits of a user are in the quota sets.
        ``tenant_id`` specifies another project, for operators; ``reserved`` is ignored, as in Nova.
        """
        asked, context = last(self.checked_query(), "tenant_id"), self.context
        if asked:
            project = read_id(asked) or NOBODY  # Identity is not queried: a project without records has the defaults
            if project != context.project_id:
                policy.enforce(context, "os_compute_api:limits:other_project", {"project_id": project})
            context = context.in_project(project)
        found = selectors.limits_for(context, own=False)
        maxima, used = dict(_MAXIMA), dict(_USED)
        if self.microversion < (2, 36):
            maxima |= {name: OF_NETWORKS[quota] for name, quota in _NETWORK_MAXIMA.items()}
            used |= _NETWORK_USED
        if self.microversion < (2, 39):
            maxima["maxImageMeta"] = "metadata_items"
        if self.microversion < (2, 57):
            maxima |= _FILE_MAXIMA
        absolute = {name: found.limits[resource] for name, resource in maxima.items()}
        unset = hidden_limits(context.project_id, self.microversion)
        absolute |= {name: unset[quota] for name, quota in _NETWORK_MAXIMA.items() if quota in unset}
        absolute |= {name: found.usage[resource] for name, resource in used.items()}
        return Response({"limits": {"rate": [], "absolute": absolute}})
