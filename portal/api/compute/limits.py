"""Limits and quota sets (Compute API reference, "Limits", "Quota sets")."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.views import ComputeView
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import existing_id
from provisioning.compute import selectors

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
_NETWORK_FIELDS = {
    "maxTotalFloatingIps": -1,
    "maxSecurityGroups": -1,
    "maxSecurityGroupRules": -1,
    "totalFloatingIpsUsed": 0,
    "totalSecurityGroupsUsed": 0,
}
_QUOTAS = {
    "instances": "instances",
    "cores": "cores",
    "ram": "ram",
    "key_pairs": "key_pairs",
    "metadata_items": "metadata_items",
    "server_groups": "server_groups",
    "server_group_members": "server_group_members",
}


class LimitsView(ComputeView):
    """``GET /limits``."""

    rules = {"GET": "compute:limits:show"}

    def get(self, request: Request) -> Response:
        """The project's absolute limits and what it uses; there are no rate limits."""
        asked = request.query_params.get("tenant_id")
        context = self.context
        if asked:
            project = existing_id(asked, "Project")
            if project != context.project_id and not self.allows("compute:limits:show:other_project"):
                raise ForbiddenError("Policy doesn't allow compute:limits:show:other_project to be performed.")
            context = context.in_project(project)
        limits = selectors.limits_for(context)
        absolute: dict[str, int] = {name: limits.limits.get(key, -1) for name, key in _MAXIMA.items()}
        absolute |= {name: limits.usage.get(key, 0) for name, key in _USED.items()}
        if self.microversion < (2, 36):
            absolute |= _NETWORK_FIELDS
        if self.microversion < (2, 39):
            absolute["maxImageMeta"] = absolute["maxServerMeta"]
        if self.microversion < (2, 57):
            absolute |= {"maxPersonality": 0, "maxPersonalitySize": 0}
        return Response({"limits": {"rate": [], "absolute": absolute}})


class QuotaSetView(ComputeView):
    """``GET /os-quota-sets/{project}``, ``…/detail`` and ``…/defaults``."""

    rules = {"GET": "compute:quotas:show"}
    detailed = False

    def get(self, request: Request, project_id: str) -> Response:
        """The limits of one's own project, or of any for an operator."""
        project = existing_id(project_id, "Project")
        if project != self.context.project_id and not self.context.is_admin:
            raise ForbiddenError("Policy doesn't allow compute:quotas:show to be performed.")
        limits = selectors.limits_for(self.context.in_project(project))
        shape: dict[str, Any] = {"id": project.hex}
        for name, key in _QUOTAS.items():
            limit = limits.limits.get(key, -1)
            shape[name] = (
                {"limit": limit, "in_use": limits.usage.get(key, 0), "reserved": 0} if self.detailed else limit
            )
        return Response({"quota_set": shape})


class QuotaSetDetailView(QuotaSetView):
    """``GET /os-quota-sets/{project}/detail``."""

    detailed = True
