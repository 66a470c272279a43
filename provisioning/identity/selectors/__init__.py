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
from provisioning.identity.selectors.assignment_lists import (
    MOST_ASSIGNMENTS,
    Assignment,
    AssignmentFilters,
    Names,
    assignments,
    names_of,
)
from provisioning.identity.selectors.catalog import (
    catalog_for,
    catalog_services,
    endpoints,
    existing_endpoint,
    existing_region,
    existing_service,
    regions,
)
from provisioning.identity.selectors.credentials import credentials_for, existing_credential, project_to_enter
from provisioning.identity.selectors.entries import domains_of, projects_of, roles_of, roles_on_domain, roles_on_system
from provisioning.identity.selectors.grants import granted_roles, has_grant, record_of
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
from provisioning.identity.selectors.open_to import domains_open_to, may_enter_system, projects_open_to
from provisioning.identity.selectors.role_lookups import (
    brings_admin,
    existing_role,
    implied_roles,
    implies,
    inferences,
    roles,
)
from provisioning.identity.selectors.sign_ins import sign_in_of, sign_ins_of
from provisioning.identity.selectors.tokens import context_for_token, context_of, token_data
from provisioning.identity.selectors.trees import parents_of, subtree_of

__all__ = [
    "MOST_ASSIGNMENTS",
    "Assignment",
    "AssignmentFilters",
    "Limits",
    "Names",
    "access_rules_of",
    "application_credential_by",
    "application_credentials_of",
    "assignments",
    "brings_admin",
    "catalog_for",
    "catalog_services",
    "context_for_token",
    "context_of",
    "credentials_for",
    "domain_by",
    "domains_of",
    "domains_open_to",
    "endpoints",
    "existing_access_rule",
    "existing_application_credential",
    "existing_credential",
    "existing_endpoint",
    "existing_project",
    "existing_region",
    "existing_role",
    "existing_service",
    "existing_user",
    "granted_roles",
    "has_grant",
    "implied_roles",
    "implies",
    "inferences",
    "limits_of",
    "may_enter_system",
    "names_of",
    "parents_of",
    "project_by",
    "project_to_enter",
    "projects_by_id",
    "projects_of",
    "projects_open_to",
    "record_of",
    "regions",
    "role_records",
    "roles",
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
