"""Domains, projects, users and groups for those who administer them: lists, and one by its id."""

from provisioning.identity.directory.listing import BY_NAME, LARGEST, Found, Part, Record
from provisioning.identity.directory.lists import domains, groups, groups_of, projects, users, users_in
from provisioning.identity.directory.single import administers_elsewhere, domain, group_or_none, is_in

__all__ = [
    "BY_NAME",
    "LARGEST",
    "Found",
    "Part",
    "Record",
    "administers_elsewhere",
    "domain",
    "domains",
    "group_or_none",
    "groups",
    "groups_of",
    "is_in",
    "projects",
    "users",
    "users_in",
]
