"""Everything that writes limits, reservations and usage."""

from provisioning.quotas.services.ledger import commit, forget, hold, hold_all, release, reserve
from provisioning.quotas.services.limits import check_each, reset_limits, set_limit, set_limits
from provisioning.quotas.services.repair import examine, repair
from provisioning.quotas.services.sizes import grow, shrink

__all__ = [
    "check_each",
    "commit",
    "examine",
    "forget",
    "grow",
    "hold",
    "hold_all",
    "release",
    "repair",
    "reserve",
    "reset_limits",
    "set_limit",
    "set_limits",
    "shrink",
]
