"""Zones, services, hypervisors, hosts, aggregates and server groups."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_ACTION = "POST /os-aggregates/{aggregate_id}/action"

ZONES = (
    rule("compute:availability_zones:list", READER, "List availability zones.", "GET /os-availability-zone"),
    rule(
        "compute:availability_zones:detail", ADMIN, "List zones with their hosts.", "GET /os-availability-zone/detail"
    ),
)
SERVICES = (
    rule("compute:services:list", ADMIN, "List the agents of the hosts and the workers.", "GET /os-services"),
    rule(
        "compute:services:update",
        ADMIN,
        "Enable or disable a host, say that it is down, change what of it is used.",
        "PUT /os-services/{service_id}",
        "POST /admin/compute/host/{host_id}/change/",
    ),
    rule(
        "compute:services:delete",
        ADMIN,
        "Forget a host that has no servers.",
        "DELETE /os-services/{service_id}",
        "POST /admin/compute/host/ (forget)",
    ),
    rule("compute:services:join", ADMIN, "Make a join token for a new host.", "POST /admin/compute/host/join/"),
)
HYPERVISORS = (
    rule("compute:hypervisors:list", ADMIN, "List hypervisors.", "GET /os-hypervisors"),
    rule("compute:hypervisors:list_detail", ADMIN, "List hypervisors whole.", "GET /os-hypervisors/detail"),
    rule("compute:hypervisors:show", ADMIN, "Show a hypervisor.", "GET /os-hypervisors/{hypervisor_id}"),
    rule(
        "compute:hypervisors:uptime",
        ADMIN,
        "See for how long a hypervisor has run.",
        "GET /os-hypervisors/{hypervisor_id}/uptime",
    ),
    rule(
        "compute:hypervisors:search",
        ADMIN,
        "Find hypervisors by a part of their names.",
        "GET /os-hypervisors/{hypervisor_hostname_pattern}/search",
    ),
    rule(
        "compute:hypervisors:servers",
        ADMIN,
        "List the servers of hypervisors.",
        "GET /os-hypervisors/{hypervisor_hostname_pattern}/servers",
    ),
    rule("compute:hypervisors:statistics", ADMIN, "Sum up all hypervisors.", "GET /os-hypervisors/statistics"),
)
HOSTS = (
    rule("compute:hosts:list", ADMIN, "List hosts, up to 2.42.", "GET /os-hosts"),
    rule("compute:hosts:show", ADMIN, "Show what a host has and gives, up to 2.42.", "GET /os-hosts/{host_name}"),
    rule("compute:hosts:update", ADMIN, "Enable or disable a host, up to 2.42.", "PUT /os-hosts/{host_name}"),
    rule("compute:hosts:start", ADMIN, "Start a host: not offered.", "GET /os-hosts/{host_name}/startup"),
    rule("compute:hosts:shutdown", ADMIN, "Shut a host down: not offered.", "GET /os-hosts/{host_name}/shutdown"),
    rule("compute:hosts:reboot", ADMIN, "Reboot a host: not offered.", "GET /os-hosts/{host_name}/reboot"),
)
AGGREGATES = (
    rule("compute:aggregates:list", ADMIN, "List aggregates.", "GET /os-aggregates"),
    rule(
        "compute:aggregates:show",
        ADMIN,
        "Show an aggregate; every action on it asks this first.",
        "GET /os-aggregates/{aggregate_id}",
        _ACTION,
    ),
    rule("compute:aggregates:create", ADMIN, "Make an aggregate.", "POST /os-aggregates"),
    rule(
        "compute:aggregates:update",
        ADMIN,
        "Rename an aggregate, change its zone.",
        "PUT /os-aggregates/{aggregate_id}",
    ),
    rule("compute:aggregates:delete", ADMIN, "Delete an aggregate.", "DELETE /os-aggregates/{aggregate_id}"),
    rule("compute:aggregates:add_host", ADMIN, "Put a host into an aggregate.", f"{_ACTION} (add_host)"),
    rule("compute:aggregates:remove_host", ADMIN, "Take a host out of an aggregate.", f"{_ACTION} (remove_host)"),
    rule("compute:aggregates:set_metadata", ADMIN, "Change an aggregate's metadata.", f"{_ACTION} (set_metadata)"),
    rule(
        "compute:aggregates:images",
        ADMIN,
        "Fetch images to an aggregate's hosts beforehand: not offered.",
        "POST /os-aggregates/{aggregate_id}/images",
    ),
)
SERVER_GROUPS = (
    rule("compute:server_groups:list", READER, "List the project's server groups.", "GET /os-server-groups"),
    rule(
        "compute:server_groups:list:all_projects",
        ADMIN,
        "See and use the server groups of every project.",
        "GET /os-server-groups?all_projects=True",
    ),
    rule("compute:server_groups:show", READER, "Show a server group.", "GET /os-server-groups/{server_group_id}"),
    rule("compute:server_groups:create", MEMBER, "Make a server group.", "POST /os-server-groups"),
    rule(
        "compute:server_groups:delete", MEMBER, "Delete a server group.", "DELETE /os-server-groups/{server_group_id}"
    ),
)
RULES = (*ZONES, *SERVICES, *HYPERVISORS, *HOSTS, *AGGREGATES, *SERVER_GROUPS)
