"""Which records the operators' pages show, and where else they are."""

SHOWN = frozenset(
    {"compute", "doctor", "hosts", "identity", "images", "jobs", "network", "notifications", "quotas", "volumes"}
)
"""Apps whose records operators see; what other apps register for themselves (queues, groups) stays out."""
IN_DASHBOARD = {
    "compute.Flavor": ("flavors", "flavor_create"),
    "identity.Domain": ("domains", "domain_create"),
    "identity.Group": ("groups", "group_create"),
    "identity.Project": ("projects", "project_create"),
    "identity.Role": ("roles", "role_create"),
    "identity.User": ("users", "user_create"),
}
"""Kinds of records that the dashboard has pages for: its list and its form for a new one.  Links lead there."""
