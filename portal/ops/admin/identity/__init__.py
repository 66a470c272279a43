"""Admin pages of users, projects, roles, credentials and the catalog."""

from portal.ops.admin.identity import catalog, credentials, directory

__all__ = ["catalog", "credentials", "directory"]
