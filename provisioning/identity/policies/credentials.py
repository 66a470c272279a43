"""Credentials, EC2 credentials, application credentials and access rules."""

from provisioning.identity.policies.base import ADMIN, ADMIN_OR_USER, ANYBODY, identity_rule

_OF_USER = "/v3/users/{user_id}"

RULES = (
    identity_rule(
        "identity:application_credentials:list",
        ADMIN_OR_USER,
        "List a user's application credentials.",
        f"GET {_OF_USER}/application_credentials",
    ),
    identity_rule(
        "identity:application_credentials:show",
        ADMIN_OR_USER,
        "Show an application credential, without its secret.",
        f"GET {_OF_USER}/application_credentials/{{application_credential_id}}",
    ),
    identity_rule(
        "identity:application_credentials:create",
        "user_id:%(user_id)s",
        "Make an application credential for oneself.",
        f"POST {_OF_USER}/application_credentials",
    ),
    identity_rule(
        "identity:application_credentials:delete",
        ADMIN_OR_USER,
        "Delete an application credential.",
        f"DELETE {_OF_USER}/application_credentials/{{application_credential_id}}",
    ),
    identity_rule(
        "identity:access_rules:list", ADMIN_OR_USER, "List a user's access rules.", f"GET {_OF_USER}/access_rules"
    ),
    identity_rule(
        "identity:access_rules:show",
        ADMIN_OR_USER,
        "Show an access rule.",
        f"GET {_OF_USER}/access_rules/{{access_rule_id}}",
    ),
    identity_rule(
        "identity:access_rules:delete",
        ADMIN_OR_USER,
        "Delete an access rule that is not in use.",
        f"DELETE {_OF_USER}/access_rules/{{access_rule_id}}",
    ),
    identity_rule("identity:credentials:list", ANYBODY, "List one's credentials.", "GET /v3/credentials"),
    identity_rule("identity:credentials:list:all_users", ADMIN, "List everybody's credentials.", "GET /v3/credentials"),
    identity_rule(
        "identity:credentials:show", ADMIN_OR_USER, "Show a credential.", "GET /v3/credentials/{credential_id}"
    ),
    identity_rule("identity:credentials:create", ADMIN_OR_USER, "Keep a credential.", "POST /v3/credentials"),
    identity_rule(
        "identity:credentials:update", ADMIN_OR_USER, "Change a credential.", "PATCH /v3/credentials/{credential_id}"
    ),
    identity_rule(
        "identity:credentials:delete", ADMIN_OR_USER, "Delete a credential.", "DELETE /v3/credentials/{credential_id}"
    ),
    identity_rule(
        "identity:ec2_credentials:list",
        ADMIN_OR_USER,
        "List a user's EC2 credentials.",
        f"GET {_OF_USER}/credentials/OS-EC2",
    ),
    identity_rule(
        "identity:ec2_credentials:show",
        ADMIN_OR_USER,
        "Show an EC2 credential.",
        f"GET {_OF_USER}/credentials/OS-EC2/{{access}}",
    ),
    identity_rule(
        "identity:ec2_credentials:create",
        ADMIN_OR_USER,
        "Make an EC2 credential.",
        f"POST {_OF_USER}/credentials/OS-EC2",
    ),
    identity_rule(
        "identity:ec2_credentials:delete",
        ADMIN_OR_USER,
        "Delete an EC2 credential.",
        f"DELETE {_OF_USER}/credentials/OS-EC2/{{access}}",
    ),
    identity_rule(
        "identity:ec2_tokens:create",
        f"{ADMIN} or role:service",
        "Get a token for a request that an AWS client signed: a service that speaks EC2 or S3 asks so.",
        "POST /v3/ec2tokens",
        "POST /v3/s3tokens",
    ),
)
