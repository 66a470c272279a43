"""Projects, users, groups, roles and domains, for administrators."""
