"""Leases of servers."""

from provisioning.common.environment import integer

LEASE_MAX_DAYS = integer("NOVELLA_LEASE_MAX_DAYS", 365, 1, 3650)
"""Maximum length of a [lease](user-guide.md#leases), and of each extension, in days."""
LEASE_NOTICE = integer("NOVELLA_LEASE_NOTICE", 86_400, 600, 2_592_000)
"""Seconds before the end of a lease at which the notification ``instance.lease.ending`` is sent; for a lease shorter
than twice this time, half of the lease.
"""
