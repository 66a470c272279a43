"""Operations of the Compute API that other services carry out, and operations that were removed."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, SERVICE, rule

RULES = (
    rule("os_compute_api:extensions", READER, "Read the API's extensions."),
    rule("os_compute_api:os-networks:list", READER, "List networks; also requires get_network."),
    rule("os_compute_api:os-networks:show", READER, "Show a network; also requires get_network."),
    rule("os_compute_api:os-tenant-networks:list", READER, "List the project's networks; also requires get_network."),
    rule(
        "os_compute_api:os-tenant-networks:show",
        READER,
        "Show one of the project's networks; also requires get_network.",
    ),
    rule("os_compute_api:os-floating-ips:list", READER, "List floating IPs; also requires get_floatingip."),
    rule("os_compute_api:os-floating-ips:show", READER, "Show a floating IP; also requires get_floatingip."),
    rule("os_compute_api:os-floating-ips:create", MEMBER, "Create a floating IP; also requires create_floatingip."),
    rule("os_compute_api:os-floating-ips:delete", MEMBER, "Delete a floating IP; also requires delete_floatingip."),
    rule("os_compute_api:os-floating-ip-pools", READER, "List floating IP pools; also requires get_network."),
    rule("os_compute_api:os-security-groups:get", READER, "List security groups; also requires get_security_group."),
    rule("os_compute_api:os-security-groups:show", READER, "Show a security group; also requires get_security_group."),
    rule(
        "os_compute_api:os-security-groups:create",
        MEMBER,
        "Create a security group; also requires create_security_group.",
    ),
    rule(
        "os_compute_api:os-security-groups:update",
        MEMBER,
        "Update a security group; also requires update_security_group.",
    ),
    rule(
        "os_compute_api:os-security-groups:delete",
        MEMBER,
        "Delete a security group; also requires delete_security_group.",
    ),
    rule(
        "os_compute_api:os-security-groups:rule:create", MEMBER, "Add a rule; also requires create_security_group_rule."
    ),
    rule(
        "os_compute_api:os-security-groups:rule:delete",
        MEMBER,
        "Delete a rule; also requires delete_security_group_rule.",
    ),
    rule("os_compute_api:os-volumes:list", READER, "List volumes briefly; also requires volume:get_all."),
    rule("os_compute_api:os-volumes:detail", READER, "List volumes in full; also requires volume:get_all."),
    rule("os_compute_api:os-volumes:show", READER, "Show a volume; also requires volume:get."),
    rule("os_compute_api:os-volumes:create", MEMBER, "Create a volume; also requires volume:create."),
    rule("os_compute_api:os-volumes:delete", MEMBER, "Delete a volume; also requires volume:delete."),
    rule(
        "os_compute_api:os-volumes:snapshots:list",
        READER,
        "List snapshots briefly; also requires volume:get_all_snapshots.",
    ),
    rule(
        "os_compute_api:os-volumes:snapshots:detail",
        READER,
        "List snapshots in full; also requires volume:get_all_snapshots.",
    ),
    rule("os_compute_api:os-volumes:snapshots:show", READER, "Show a snapshot; also requires volume:get_snapshot."),
    rule(
        "os_compute_api:os-volumes:snapshots:create", MEMBER, "Create a snapshot; also requires volume:create_snapshot."
    ),
    rule(
        "os_compute_api:os-volumes:snapshots:delete", MEMBER, "Delete a snapshot; also requires volume:delete_snapshot."
    ),
    rule(
        "os_compute_api:os-assisted-volume-snapshots:create",
        SERVICE,
        "Create a snapshot of a volume for the volume service.",
    ),
    rule("os_compute_api:os-assisted-volume-snapshots:delete", SERVICE, "Delete a snapshot for the volume service."),
    rule("os_compute_api:os-baremetal-nodes:list", ADMIN, "List bare metal nodes."),
    rule("os_compute_api:os-baremetal-nodes:show", ADMIN, "Show a bare metal node."),
    rule("os_compute_api:os-baremetal-nodes", ADMIN, "Get the error message for changes of bare metal nodes."),
    rule("novella:removed_apis", READER, "Get the error message of removed APIs."),
)
