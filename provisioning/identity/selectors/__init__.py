"""Reading identity: what a token is worth now, who may enter what, and look-ups by id or name."""

from provisioning.identity.selectors.application_credentials import (
    Limits,
    access_rules_of,
    application_credential_by,
    application_credentials_of,
    existing_access_rule,
    existing_application_credential,
    limits_of,
)
from provisioning.identity.selectors.credentials import credentials_for, existing_credential, project_to_enter
from provisioning.identity.selectors.entries import domains_of, projects_of, roles_of, roles_on_domain, roles_on_system
from provisioning.identity.selectors.lookups import (
    domain_by,
    existing_project,
    existing_user,
    project_by,
    projects_by_id,
    role_records,
    user_by,
    users_by_id,
)
from provisioning.identity.selectors.sign_ins import sign_in_of, sign_ins_of
from provisioning.identity.selectors.tokens import context_for_token, context_of, token_data
from provisioning.identity.selectors.trees import parents_of, subtree_of

__all__ = [
    "Limits",
    "access_rules_of",
    "application_credential_by",
    "application_credentials_of",
    "context_for_token",
    "context_of",
    "credentials_for",
    "domain_by",
    "domains_of",
    "existing_access_rule",
    "existing_application_credential",
    "existing_credential",
    "existing_project",
    "existing_user",
    "limits_of",
    "parents_of",
    "project_by",
    "project_to_enter",
    "projects_by_id",
    "projects_of",
    "role_records",
    "roles_of",
    "roles_on_domain",
    "roles_on_system",
    "sign_in_of",
    "sign_ins_of",
    "subtree_of",
    "token_data",
    "user_by",
    "users_by_id",
]
