"""Admin pages of users, projects, roles, credentials and the catalog."""

from portal.ops.admin.identity import catalog, credentials, domains, groups, projects, roles, users

__all__ = ["catalog", "credentials", "domains", "groups", "projects", "roles", "users"]
