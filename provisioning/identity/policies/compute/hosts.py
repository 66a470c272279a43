"""Zones, services, hypervisors, hosts, aggregates and server groups."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

ZONES = (
    rule("os_compute_api:os-availability-zone:list", READER, "List availability zones."),
    rule("os_compute_api:os-availability-zone:detail", ADMIN, "List zones with their hosts."),
)
SERVICES = (
    rule("os_compute_api:os-services:list", ADMIN, "List the agents of the hosts and the workers."),
    rule(
        "os_compute_api:os-services:update",
        ADMIN,
        "Enable or disable a host, force it down, and change its ratios and reserved resources.",
        "POST /admin/hosts/host/{host_id}/change/",
    ),
    rule(
        "os_compute_api:os-services:delete",
        ADMIN,
        "Delete a host that has no servers.",
        "POST /admin/hosts/host/ (forget)",
    ),
    rule("novella:hosts:join", ADMIN, "Create a join token for a new host.", "POST /admin/hosts/host/join/"),
)
HYPERVISORS = (
    rule("os_compute_api:os-hypervisors:list", ADMIN, "List hypervisors."),
    rule("os_compute_api:os-hypervisors:list-detail", ADMIN, "List hypervisors with details."),
    rule("os_compute_api:os-hypervisors:show", ADMIN, "Show a hypervisor."),
    rule("os_compute_api:os-hypervisors:uptime", ADMIN, "Show the uptime of a hypervisor."),
    rule("os_compute_api:os-hypervisors:search", ADMIN, "Search hypervisors by a part of their names."),
    rule("os_compute_api:os-hypervisors:servers", ADMIN, "List the servers of hypervisors."),
    rule("novella:hosts:measures", ADMIN, "Show what a host, a storage pool, and all hosts together, use."),
    rule("os_compute_api:os-hypervisors:statistics", ADMIN, "Show the totals of all hypervisors."),
)
HOSTS = (
    rule("os_compute_api:os-hosts:list", ADMIN, "List hosts, up to 2.42."),
    rule("os_compute_api:os-hosts:show", ADMIN, "Show the resources of a host and their use, up to 2.42."),
    rule("os_compute_api:os-hosts:update", ADMIN, "Enable or disable a host, up to 2.42."),
    rule("os_compute_api:os-hosts:start", ADMIN, "Start a host: not supported."),
    rule("os_compute_api:os-hosts:shutdown", ADMIN, "Shut down a host: not supported."),
    rule("os_compute_api:os-hosts:reboot", ADMIN, "Reboot a host: not supported."),
)
AGGREGATES = (
    rule("os_compute_api:os-aggregates:index", ADMIN, "List aggregates."),
    rule("os_compute_api:os-aggregates:show", ADMIN, "Show an aggregate; also checked for all actions on it."),
    rule("os_compute_api:os-aggregates:create", ADMIN, "Create an aggregate."),
    rule("os_compute_api:os-aggregates:update", ADMIN, "Change an aggregate's name and zone."),
    rule("os_compute_api:os-aggregates:delete", ADMIN, "Delete an aggregate."),
    rule("os_compute_api:os-aggregates:add_host", ADMIN, "Add a host to an aggregate."),
    rule("os_compute_api:os-aggregates:remove_host", ADMIN, "Remove a host from an aggregate."),
    rule("os_compute_api:os-aggregates:set_metadata", ADMIN, "Change an aggregate's metadata."),
    rule("compute:aggregates:images", ADMIN, "Cache images on an aggregate's hosts: not supported."),
)
SERVER_GROUPS = (
    rule("os_compute_api:os-server-groups:index", READER, "List the project's server groups."),
    rule(
        "os_compute_api:os-server-groups:index:all_projects",
        ADMIN,
        "See and use the server groups of every project.",
        "GET /os-server-groups?all_projects=True",
    ),
    rule("os_compute_api:os-server-groups:show", READER, "Show a server group."),
    rule("os_compute_api:os-server-groups:create", MEMBER, "Create a server group."),
    rule("os_compute_api:os-server-groups:delete", MEMBER, "Delete a server group."),
)
RULES = (*ZONES, *SERVICES, *HYPERVISORS, *HOSTS, *AGGREGATES, *SERVER_GROUPS)
