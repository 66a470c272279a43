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
from provisioning.identity.services.assignments import assign_role, remove_role
from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.passwords import authenticate_password, change_password, set_password
from provisioning.identity.services.projects import (
    describe_project,
    ensure_project,
    project_for_sign_in,
    set_project_enabled,
)
from provisioning.identity.services.roles import ensure_role
from provisioning.identity.services.tokens import issue_token, revoke_token
from provisioning.identity.services.users import delete_user, ensure_user, revoke_all, set_user_enabled, update_user

__all__ = [
    "RequestPattern",
    "assign_role",
    "authenticate_password",
    "change_password",
    "check_secret",
    "create_application_credential",
    "delete_access_rule",
    "delete_application_credential",
    "delete_user",
    "describe_project",
    "ensure_domain",
    "ensure_project",
    "ensure_role",
    "ensure_user",
    "issue_token",
    "project_for_sign_in",
    "remove_role",
    "revoke_all",
    "revoke_token",
    "set_password",
    "set_project_enabled",
    "set_user_enabled",
    "update_user",
]
