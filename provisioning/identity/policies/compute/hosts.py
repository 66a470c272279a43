"""Zones, services and hypervisors."""

from provisioning.identity.policies.base import ADMIN, READER, rule

RULES = (
    rule("compute:availability_zones:list", READER, "List availability zones.", "GET /os-availability-zone"),
    rule(
        "compute:availability_zones:detail", ADMIN, "List zones with their hosts.", "GET /os-availability-zone/detail"
    ),
    rule("compute:services:list", ADMIN, "List the agents of the hosts.", "GET /os-services"),
    rule(
        "compute:services:update",
        ADMIN,
        "Enable or disable a host, change what of it is used.",
        "PUT /os-services/{service_id}",
        "POST /admin/compute/host/{host_id}/change/",
    ),
    rule("compute:services:join", ADMIN, "Make a join token for a new host.", "POST /admin/compute/host/join/"),
    rule("compute:hypervisors:list", ADMIN, "List hypervisors.", "GET /os-hypervisors"),
    rule("compute:hypervisors:list_detail", ADMIN, "List hypervisors whole.", "GET /os-hypervisors/detail"),
    rule("compute:hypervisors:show", ADMIN, "Show a hypervisor.", "GET /os-hypervisors/{hypervisor_id}"),
)
