"""Records that the operators' pages show, and their pages in the dashboard."""

SHOWN = frozenset(
    {"compute", "doctor", "hosts", "identity", "images", "jobs", "network", "notifications", "quotas", "volumes"}
)
"""Apps whose records operators see; models registered by other apps (queues, groups) are hidden."""
IN_DASHBOARD = {
    "compute.Flavor": ("flavors", "flavor_create"),
    "identity.Domain": ("domains", "domain_create"),
    "identity.Group": ("groups", "group_create"),
    "identity.Project": ("projects", "project_create"),
    "identity.Role": ("roles", "role_create"),
    "identity.User": ("users", "user_create"),
}
"""Model → the dashboard's list and its form for a new record, used by links of the admin."""
