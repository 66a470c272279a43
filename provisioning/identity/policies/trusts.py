"""Trusts.  Checks refer to the trustor and trustee with the names of Keystone."""

from provisioning.identity.policies.base import CLOUD_ADMIN, identity_rule

_TRUSTOR, _TRUSTEE = "user_id:%(target.trust.trustor_user_id)s", "user_id:%(target.trust.trustee_user_id)s"
_OPERATOR = f"{CLOUD_ADMIN} or (role:reader and token_scope:system)"
_EITHER = f"{_OPERATOR} or {_TRUSTOR} or {_TRUSTEE}"

RULES = (
    identity_rule("identity:create_trust", _TRUSTOR, "Create a trust."),
    identity_rule("identity:list_trusts", _OPERATOR, "List all trusts."),
    identity_rule(
        "identity:list_trusts_for_trustor",
        f"{_OPERATOR} or {_TRUSTOR}",
        "List the trusts of a trustor.",
        "GET /v3/OS-TRUST/trusts?trustor_user_id={user_id}",
    ),
    identity_rule(
        "identity:list_trusts_for_trustee",
        f"{_OPERATOR} or {_TRUSTEE}",
        "List the trusts of a trustee.",
        "GET /v3/OS-TRUST/trusts?trustee_user_id={user_id}",
    ),
    identity_rule("identity:get_trust", _EITHER, "Show a trust."),
    identity_rule("identity:list_roles_for_trust", _EITHER, "List the roles of a trust."),
    identity_rule("identity:get_role_for_trust", _EITHER, "Check whether a trust has a role."),
    identity_rule("identity:delete_trust", f"{CLOUD_ADMIN} or {_TRUSTOR}", "Delete a trust."),
)
