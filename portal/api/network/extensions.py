"""What this API does beyond Neutron's core, by Neutron's aliases: clients ask before they use it."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.network.base import NetworkView
from provisioning.common.errors import NotFoundError

EXTENSIONS: dict[str, tuple[str, str]] = {
    "binding": ("Port Binding", "Where a port is bound, for operators."),
    "external-net": ("Neutron external network", "The attribute router:external, which is false on every network."),
    "filter-validation": ("Filter parameters validation", "An unknown filter is refused."),
    "net-mtu": ("Network MTU", "The MTU of a network."),
    "pagination": ("Pagination support", "Lists by limit and marker."),
    "port-security": ("Port Security", "Ports are held to their own addresses; it cannot be switched off."),
    "project-id": ("project_id field enabled", "project_id beside tenant_id."),
    "provider": ("Provider Network", "How a network is made, for operators."),
    "quota-check-limit": ("Quota limit check", "A limit below what is used is refused."),
    "quota-check-limit-default": ("Quota limit check by default", "It is refused unless force is asked for."),
    "quota_details": ("Quota details management support", "What is used and reserved of each quota."),
    "quotas": ("Quota management support", "Quotas of each project."),
    "security-group": ("security-group", "Security groups and rules, to read."),
    "security-groups-normalized-cidr": ("Normalized CIDR field for security group rules", "normalized_cidr of a rule."),
    "sorting": ("Sorting support", "Lists sorted by attributes."),
    "standard-attr-description": ("standard-attr-description", "A description of every resource."),
    "standard-attr-revisions": ("Resource revision numbers", "A number that rises with every change."),
    "standard-attr-timestamp": ("Resource timestamps", "Times of creation and last change."),
}
"""Alias → name and description."""
UPDATED = "2026-01-01T00:00:00-00:00"


def shape(alias: str) -> dict[str, object]:
    name, description = EXTENSIONS[alias]
    return {"alias": alias, "name": name, "description": description, "updated": UPDATED, "links": []}


class Extensions(NetworkView):
    """``GET /network/v2.0/extensions``."""

    rules = {"GET": "novella:get_extensions"}

    def get(self, request: Request) -> Response:
        return Response({"extensions": [shape(alias) for alias in EXTENSIONS]})


class Extension(NetworkView):
    """``GET /network/v2.0/extensions/{alias}``."""

    rules = {"GET": "novella:get_extensions"}

    def get(self, request: Request, alias: str) -> Response:
        if alias not in EXTENSIONS:
            raise NotFoundError(f"Extension with alias {alias} does not exist")
        return Response({"extension": shape(alias)})
