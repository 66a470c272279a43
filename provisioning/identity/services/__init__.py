"""What changes identity: every write goes through one of these.

Whatever takes something away appends an event on the topic ``auth``, so that open connections look again at once.
"""

from provisioning.identity.services.application_credentials import (
    RequestPattern,
    check_secret,
    create_application_credential,
    delete_access_rule,
    delete_application_credential,
)
from provisioning.identity.services.assignments import assign_role, grant, remove_role, revoke_grant
from provisioning.identity.services.catalog import (
    create_endpoint,
    create_region,
    create_service,
    delete_endpoint,
    delete_region,
    delete_service,
    ensure_catalog,
    update_endpoint,
    update_region,
    update_service,
)
from provisioning.identity.services.domains import (
    create_domain,
    delete_domain,
    ensure_domain,
    set_domain_enabled,
    update_domain,
)
from provisioning.identity.services.groups import (
    add_to_group,
    create_group,
    delete_group,
    remove_from_group,
    update_group,
)
from provisioning.identity.services.passwords import authenticate_password, change_password, set_password
from provisioning.identity.services.projects import (
    add_tag,
    create_project,
    delete_project,
    describe_project,
    ensure_project,
    project_for_sign_in,
    remove_tag,
    set_project_enabled,
    set_tags,
    update_project,
)
from provisioning.identity.services.roles import create_role, delete_role, ensure_role, imply, unimply, update_role
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.users import (
    create_user,
    delete_user,
    ensure_user,
    revoke_all,
    set_user_enabled,
    update_user,
)

__all__ = [
    "RequestPattern",
    "add_tag",
    "add_to_group",
    "assign_role",
    "authenticate_password",
    "change_password",
    "check_secret",
    "create_application_credential",
    "create_domain",
    "create_endpoint",
    "create_group",
    "create_project",
    "create_region",
    "create_role",
    "create_service",
    "create_user",
    "delete_access_rule",
    "delete_application_credential",
    "delete_domain",
    "delete_endpoint",
    "delete_group",
    "delete_project",
    "delete_region",
    "delete_role",
    "delete_service",
    "delete_user",
    "describe_project",
    "ensure_catalog",
    "ensure_domain",
    "ensure_project",
    "ensure_role",
    "ensure_user",
    "grant",
    "imply",
    "issue_token",
    "project_for_sign_in",
    "remove_from_group",
    "remove_role",
    "remove_tag",
    "revoke_all",
    "revoke_grant",
    "revoke_token",
    "set_domain_enabled",
    "set_password",
    "set_project_enabled",
    "set_tags",
    "set_user_enabled",
    "unimply",
    "update_domain",
    "update_endpoint",
    "update_group",
    "update_project",
    "update_region",
    "update_role",
    "update_service",
    "update_user",
]
