"""Credentials, EC2 credentials, application credentials and access rules."""

from provisioning.identity.policies.base import (
    ADMIN_OR_USER,
    ANYBODY,
    CLOUD_ADMIN,
    CLOUD_ADMIN_OR_SYSTEM_READER,
    identity_rule,
)

_SEES = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or user_id:%(user_id)s"

RULES = (
    identity_rule("identity:list_application_credentials", _SEES, "List a user's application credentials."),
    identity_rule("identity:get_application_credential", _SEES, "Show an application credential, without its secret."),
    identity_rule(
        "identity:create_application_credential",
        "user_id:%(user_id)s",
        "Create an application credential for the caller.",
    ),
    identity_rule("identity:delete_application_credential", ADMIN_OR_USER, "Delete an application credential."),
    identity_rule("identity:list_access_rules", _SEES, "List a user's access rules."),
    identity_rule("identity:get_access_rule", _SEES, "Show an access rule."),
    identity_rule("identity:delete_access_rule", ADMIN_OR_USER, "Delete an access rule that is not in use."),
    identity_rule("identity:list_credentials", ANYBODY, "List the caller's credentials."),
    identity_rule(
        "novella:list_credentials:all_users", CLOUD_ADMIN, "List all users' credentials.", "GET /v3/credentials"
    ),
    identity_rule("identity:get_credential", ADMIN_OR_USER, "Show a credential."),
    identity_rule("identity:create_credential", ADMIN_OR_USER, "Create a credential."),
    identity_rule("identity:update_credential", ADMIN_OR_USER, "Change a credential."),
    identity_rule("identity:delete_credential", ADMIN_OR_USER, "Delete a credential."),
    identity_rule("identity:ec2_list_credentials", ADMIN_OR_USER, "List a user's EC2 credentials."),
    identity_rule("identity:ec2_get_credential", ADMIN_OR_USER, "Show an EC2 credential."),
    identity_rule("identity:ec2_create_credential", ADMIN_OR_USER, "Create an EC2 credential."),
    identity_rule("identity:ec2_delete_credential", ADMIN_OR_USER, "Delete an EC2 credential."),
    identity_rule(
        "identity:ec2tokens_validate",
        f"{CLOUD_ADMIN} or role:service",
        "Exchange a request that an EC2 client signed for a token; for services with an EC2 API.",
    ),
    identity_rule(
        "identity:s3tokens_validate",
        f"{CLOUD_ADMIN} or role:service",
        "Exchange a request that an S3 client signed for a token; for services with an S3 API.",
    ),
)
