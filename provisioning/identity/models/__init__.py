"""Domains, projects, users, groups, roles, assignments, credentials and the catalog, as in Keystone."""

from provisioning.identity.models.assignments import RoleAssignment
from provisioning.identity.models.base import LONG, SHORT
from provisioning.identity.models.catalog import (
    Endpoint,
    EndpointGroup,
    Policy,
    ProjectEndpoint,
    ProjectEndpointGroup,
    Region,
    Service,
)
from provisioning.identity.models.directory import (
    Domain,
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    ProjectTag,
    Role,
    User,
)
from provisioning.identity.models.keys import KeyHolder, KeyRecord
from provisioning.identity.models.limits import Limit, RegisteredLimit
from provisioning.identity.models.sign_ins import (
    AccessRule,
    ApplicationCredential,
    Credential,
    KnownAddress,
    RevokedToken,
    SignIn,
    Trust,
    TrustRole,
)

__all__ = [
    "LONG",
    "SHORT",
    "AccessRule",
    "ApplicationCredential",
    "Credential",
    "Domain",
    "Endpoint",
    "EndpointGroup",
    "Group",
    "GroupMembership",
    "ImpliedRole",
    "KeyHolder",
    "KeyRecord",
    "KnownAddress",
    "Limit",
    "Policy",
    "Project",
    "ProjectEndpoint",
    "ProjectEndpointGroup",
    "ProjectTag",
    "Region",
    "RegisteredLimit",
    "RevokedToken",
    "Role",
    "RoleAssignment",
    "Service",
    "SignIn",
    "Trust",
    "TrustRole",
    "User",
]
