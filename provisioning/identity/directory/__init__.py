"""Domains, projects, users and groups for those who administer them: lists, and one by its id."""

from provisioning.identity.directory.listing import LARGEST, Found, Record
from provisioning.identity.directory.lists import domains, groups, groups_of, projects, users, users_in
from provisioning.identity.directory.single import domain, group_or_none, is_admin_somewhere, is_in

__all__ = [
    "LARGEST",
    "Found",
    "Record",
    "domain",
    "domains",
    "group_or_none",
    "groups",
    "groups_of",
    "is_admin_somewhere",
    "is_in",
    "projects",
    "users",
    "users_in",
]
