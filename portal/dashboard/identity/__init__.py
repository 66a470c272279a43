"""Projects, users, groups, roles and domains for those who administer the cloud."""
