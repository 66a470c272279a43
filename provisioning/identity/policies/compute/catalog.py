"""Flavors and key pairs."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("compute:flavors:list", READER, "List flavors.", "GET /flavors", "GET /flavors/detail"),
    rule(
        "compute:flavors:list:all",
        ADMIN,
        "List the flavors of every project.",
        "GET /flavors?is_public=None",
        "GET /flavors/detail?is_public=None",
    ),
    rule("compute:flavors:show", READER, "Show a flavor.", "GET /flavors/{flavor_id}"),
    rule("compute:flavors:create", ADMIN, "Make a flavor.", "POST /flavors"),
    rule(
        "compute:flavors:update",
        ADMIN,
        "Describe a flavor, show or hide it.",
        "PUT /flavors/{flavor_id}",
        "POST /admin/compute/flavor/{flavor_id}/change/",
    ),
    rule("compute:flavors:delete", ADMIN, "Delete a flavor.", "DELETE /flavors/{flavor_id}"),
    rule(
        "compute:flavor_extra_specs:list",
        READER,
        "List a flavor's extra specs.",
        "GET /flavors/{flavor_id}/os-extra_specs",
    ),
    rule(
        "compute:flavor_extra_specs:show",
        READER,
        "Show one extra spec of a flavor.",
        "GET /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "compute:flavor_extra_specs:create",
        ADMIN,
        "Add extra specs to a flavor.",
        "POST /flavors/{flavor_id}/os-extra_specs",
    ),
    rule(
        "compute:flavor_extra_specs:update",
        ADMIN,
        "Change an extra spec of a flavor.",
        "PUT /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "compute:flavor_extra_specs:delete",
        ADMIN,
        "Remove an extra spec of a flavor.",
        "DELETE /flavors/{flavor_id}/os-extra_specs/{flavor_extra_spec_key}",
    ),
    rule(
        "compute:flavor_access:add",
        ADMIN,
        "Let a project see a flavor; and the rule of every action of a flavor.",
        "POST /flavors/{flavor_id}/action",
    ),
    rule(
        "compute:flavor_access:remove",
        ADMIN,
        "Hide a flavor from a project.",
        "POST /flavors/{flavor_id}/action (removeTenantAccess)",
    ),
    rule("compute:flavor_access:list", ADMIN, "List who sees a flavor.", "GET /flavors/{flavor_id}/os-flavor-access"),
    rule("compute:keypairs:list", READER, "List one's key pairs.", "GET /os-keypairs"),
    rule("compute:keypairs:show", READER, "Show one's key pair.", "GET /os-keypairs/{keypair_name}"),
    rule("compute:keypairs:create", MEMBER, "Make or import a key pair.", "POST /os-keypairs"),
    rule("compute:keypairs:delete", MEMBER, "Delete one's key pair.", "DELETE /os-keypairs/{keypair_name}"),
    rule(
        "compute:keypairs:other_users", ADMIN, "Work with other users' key pairs.", "GET /os-keypairs?user_id={user_id}"
    ),
)
