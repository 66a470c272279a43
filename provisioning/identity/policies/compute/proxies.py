"""What the Compute API passed on to other services, and what was removed from it."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, SERVICE, rule

RULES = (
    rule("os_compute_api:extensions", READER, "Read the API's extensions."),
    rule("os_compute_api:os-networks:list", READER, "List networks; get_network is asked too."),
    rule("os_compute_api:os-networks:show", READER, "Show a network; get_network is asked too."),
    rule("os_compute_api:os-tenant-networks:list", READER, "List the project's networks; get_network is asked too."),
    rule(
        "os_compute_api:os-tenant-networks:show",
        READER,
        "Show one of the project's networks; get_network is asked too.",
    ),
    rule("os_compute_api:os-floating-ips:list", READER, "List floating IPs; get_floatingip is asked too."),
    rule("os_compute_api:os-floating-ips:show", READER, "Show a floating IP; get_floatingip is asked too."),
    rule("os_compute_api:os-floating-ips:create", MEMBER, "Take a floating IP; create_floatingip is asked too."),
    rule("os_compute_api:os-floating-ips:delete", MEMBER, "Give one back; delete_floatingip is asked too."),
    rule("os_compute_api:os-floating-ip-pools", READER, "List where they come from; get_network is asked too."),
    rule("os_compute_api:os-security-groups:get", READER, "List security groups; get_security_group is asked too."),
    rule("os_compute_api:os-security-groups:show", READER, "Show a security group; get_security_group is asked too."),
    rule(
        "os_compute_api:os-security-groups:create", MEMBER, "Make a security group; create_security_group is asked too."
    ),
    rule("os_compute_api:os-security-groups:update", MEMBER, "Change one; update_security_group is asked too."),
    rule("os_compute_api:os-security-groups:delete", MEMBER, "Delete one; delete_security_group is asked too."),
    rule(
        "os_compute_api:os-security-groups:rule:create", MEMBER, "Add a rule; create_security_group_rule is asked too."
    ),
    rule(
        "os_compute_api:os-security-groups:rule:delete",
        MEMBER,
        "Delete a rule; delete_security_group_rule is asked too.",
    ),
    rule("os_compute_api:os-volumes:list", READER, "List volumes briefly; volume:get_all is asked too."),
    rule("os_compute_api:os-volumes:detail", READER, "List volumes in full; volume:get_all is asked too."),
    rule("os_compute_api:os-volumes:show", READER, "Show a volume; volume:get is asked too."),
    rule("os_compute_api:os-volumes:create", MEMBER, "Make a volume; volume:create is asked too."),
    rule("os_compute_api:os-volumes:delete", MEMBER, "Delete a volume; volume:delete is asked too."),
    rule(
        "os_compute_api:os-volumes:snapshots:list",
        READER,
        "List snapshots briefly; volume:get_all_snapshots is asked too.",
    ),
    rule(
        "os_compute_api:os-volumes:snapshots:detail",
        READER,
        "List snapshots in full; volume:get_all_snapshots is asked too.",
    ),
    rule("os_compute_api:os-volumes:snapshots:show", READER, "Show a snapshot; volume:get_snapshot is asked too."),
    rule("os_compute_api:os-volumes:snapshots:create", MEMBER, "Make a snapshot; volume:create_snapshot is asked too."),
    rule(
        "os_compute_api:os-volumes:snapshots:delete", MEMBER, "Delete a snapshot; volume:delete_snapshot is asked too."
    ),
    rule(
        "os_compute_api:os-assisted-volume-snapshots:create",
        SERVICE,
        "Make a snapshot of a volume for the volume service.",
    ),
    rule("os_compute_api:os-assisted-volume-snapshots:delete", SERVICE, "Delete such a snapshot."),
    rule("os_compute_api:os-baremetal-nodes:list", ADMIN, "List bare metal nodes."),
    rule("os_compute_api:os-baremetal-nodes:show", ADMIN, "Show a bare metal node."),
    rule("os_compute_api:os-baremetal-nodes", ADMIN, "Be told how nodes are changed."),
    rule("novella:removed_apis", READER, "Be told that something was removed from the API."),
)
