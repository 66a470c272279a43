"""Zones, services, hypervisors, hosts, aggregates and server groups."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_ACTION = "POST /os-aggregates/{aggregate_id}/action"

ZONES = (
    rule("os_compute_api:os-availability-zone:list", READER, "List availability zones.", "GET /os-availability-zone"),
    rule(
        "os_compute_api:os-availability-zone:detail",
        ADMIN,
        "List zones with their hosts.",
        "GET /os-availability-zone/detail",
    ),
)
SERVICES = (
    rule("os_compute_api:os-services:list", ADMIN, "List the agents of the hosts and the workers.", "GET /os-services"),
    rule(
        "os_compute_api:os-services:update",
        ADMIN,
        "Enable or disable a host, say that it is down, change what of it is used.",
        "PUT /os-services/{service_id}",
        "POST /admin/hosts/host/{host_id}/change/",
    ),
    rule(
        "os_compute_api:os-services:delete",
        ADMIN,
        "Forget a host that has no servers.",
        "DELETE /os-services/{service_id}",
        "POST /admin/hosts/host/ (forget)",
    ),
    rule("novella:hosts:join", ADMIN, "Make a join token for a new host.", "POST /admin/hosts/host/join/"),
)
HYPERVISORS = (
    rule("os_compute_api:os-hypervisors:list", ADMIN, "List hypervisors.", "GET /os-hypervisors"),
    rule("os_compute_api:os-hypervisors:list-detail", ADMIN, "List hypervisors whole.", "GET /os-hypervisors/detail"),
    rule("os_compute_api:os-hypervisors:show", ADMIN, "Show a hypervisor.", "GET /os-hypervisors/{hypervisor_id}"),
    rule(
        "os_compute_api:os-hypervisors:uptime",
        ADMIN,
        "See for how long a hypervisor has run.",
        "GET /os-hypervisors/{hypervisor_id}/uptime",
    ),
    rule(
        "os_compute_api:os-hypervisors:search",
        ADMIN,
        "Find hypervisors by a part of their names.",
        "GET /os-hypervisors/{hypervisor_hostname_pattern}/search",
    ),
    rule(
        "os_compute_api:os-hypervisors:servers",
        ADMIN,
        "List the servers of hypervisors.",
        "GET /os-hypervisors/{hypervisor_hostname_pattern}/servers",
    ),
    rule(
        "os_compute_api:os-hypervisors:statistics", ADMIN, "Sum up all hypervisors.", "GET /os-hypervisors/statistics"
    ),
)
HOSTS = (
    rule("os_compute_api:os-hosts:list", ADMIN, "List hosts, up to 2.42.", "GET /os-hosts"),
    rule(
        "os_compute_api:os-hosts:show",
        ADMIN,
        "Show what a host has and gives, up to 2.42.",
        "GET /os-hosts/{host_name}",
    ),
    rule("os_compute_api:os-hosts:update", ADMIN, "Enable or disable a host, up to 2.42.", "PUT /os-hosts/{host_name}"),
    rule("os_compute_api:os-hosts:start", ADMIN, "Start a host: not offered.", "GET /os-hosts/{host_name}/startup"),
    rule(
        "os_compute_api:os-hosts:shutdown",
        ADMIN,
        "Shut a host down: not offered.",
        "GET /os-hosts/{host_name}/shutdown",
    ),
    rule("os_compute_api:os-hosts:reboot", ADMIN, "Reboot a host: not offered.", "GET /os-hosts/{host_name}/reboot"),
)
AGGREGATES = (
    rule("os_compute_api:os-aggregates:index", ADMIN, "List aggregates.", "GET /os-aggregates"),
    rule(
        "os_compute_api:os-aggregates:show",
        ADMIN,
        "Show an aggregate; every action on it asks this first.",
        "GET /os-aggregates/{aggregate_id}",
        _ACTION,
    ),
    rule("os_compute_api:os-aggregates:create", ADMIN, "Make an aggregate.", "POST /os-aggregates"),
    rule(
        "os_compute_api:os-aggregates:update",
        ADMIN,
        "Rename an aggregate, change its zone.",
        "PUT /os-aggregates/{aggregate_id}",
    ),
    rule("os_compute_api:os-aggregates:delete", ADMIN, "Delete an aggregate.", "DELETE /os-aggregates/{aggregate_id}"),
    rule("os_compute_api:os-aggregates:add_host", ADMIN, "Put a host into an aggregate.", f"{_ACTION} (add_host)"),
    rule(
        "os_compute_api:os-aggregates:remove_host",
        ADMIN,
        "Take a host out of an aggregate.",
        f"{_ACTION} (remove_host)",
    ),
    rule(
        "os_compute_api:os-aggregates:set_metadata",
        ADMIN,
        "Change an aggregate's metadata.",
        f"{_ACTION} (set_metadata)",
    ),
    rule(
        "compute:aggregates:images",
        ADMIN,
        "Fetch images to an aggregate's hosts beforehand: not offered.",
        "POST /os-aggregates/{aggregate_id}/images",
    ),
)
SERVER_GROUPS = (
    rule("os_compute_api:os-server-groups:index", READER, "List the project's server groups.", "GET /os-server-groups"),
    rule(
        "os_compute_api:os-server-groups:index:all_projects",
        ADMIN,
        "See and use the server groups of every project.",
        "GET /os-server-groups?all_projects=True",
    ),
    rule(
        "os_compute_api:os-server-groups:show",
        READER,
        "Show a server group.",
        "GET /os-server-groups/{server_group_id}",
    ),
    rule("os_compute_api:os-server-groups:create", MEMBER, "Make a server group.", "POST /os-server-groups"),
    rule(
        "os_compute_api:os-server-groups:delete",
        MEMBER,
        "Delete a server group.",
        "DELETE /os-server-groups/{server_group_id}",
    ),
)
RULES = (*ZONES, *SERVICES, *HYPERVISORS, *HOSTS, *AGGREGATES, *SERVER_GROUPS)
