"""Flavors and key pairs."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_READS_OWN = f"{ADMIN} or ({READER} and user_id:%(user_id)s)"
_OWN = f"{ADMIN} or ({MEMBER} and user_id:%(user_id)s)"

RULES = (
    rule("novella:flavors:index", READER, "List flavors."),
    rule(
        "novella:flavors:index:all",
        ADMIN,
        "List the flavors of every project.",
        "GET /flavors?is_public=None",
        "GET /flavors/detail?is_public=None",
    ),
    rule("novella:flavors:show", READER, "Show a flavor."),
    rule("os_compute_api:os-flavor-manage:create", ADMIN, "Create a flavor."),
    rule(
        "os_compute_api:os-flavor-manage:update",
        ADMIN,
        "Change a flavor's description, and disable or enable it.",
        "POST /admin/compute/flavor/{flavor_id}/change/",
    ),
    rule("os_compute_api:os-flavor-manage:delete", ADMIN, "Delete a flavor."),
    rule("os_compute_api:os-flavor-extra-specs:index", READER, "List a flavor's extra specs."),
    rule("os_compute_api:os-flavor-extra-specs:show", READER, "Show one extra spec of a flavor."),
    rule("os_compute_api:os-flavor-extra-specs:create", ADMIN, "Add extra specs to a flavor."),
    rule("os_compute_api:os-flavor-extra-specs:update", ADMIN, "Change an extra spec of a flavor."),
    rule("os_compute_api:os-flavor-extra-specs:delete", ADMIN, "Remove an extra spec of a flavor."),
    rule(
        "os_compute_api:os-flavor-access:add_tenant_access",
        ADMIN,
        "Add a project's access to a flavor; also checked for all actions on a flavor.",
    ),
    rule("os_compute_api:os-flavor-access:remove_tenant_access", ADMIN, "Remove a project's access to a flavor."),
    rule("os_compute_api:os-flavor-access", ADMIN, "List the projects with access to a flavor."),
    rule("os_compute_api:os-keypairs:index", _READS_OWN, "List a user's key pairs."),
    rule("os_compute_api:os-keypairs:show", _READS_OWN, "Show a key pair."),
    rule("os_compute_api:os-keypairs:create", _OWN, "Create or import a key pair."),
    rule("os_compute_api:os-keypairs:delete", _OWN, "Delete a key pair."),
)
