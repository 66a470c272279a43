"""Periodic work for measures."""

import time

from django.conf import settings

from provisioning.jobs.registry import periodic
from provisioning.measures import collect, condensing, pools


@periodic("measures.collect", every=60)
def collect_reports() -> None:
    """Collect the hosts' reports and the sizes of pools, condense complete blocks, and delete old ones."""
    now = time.time()
    collect.collect(now)
    if settings.MEASURES:
        pools.collect_pools(now)
    condensing.condense_complete(now)
    condensing.delete_old(now)


UNPURGED = {
    "measures.Report": "Deleted when collected, at most one minute later; limited to an hour for each host.",
    "measures.Block": "Deleted after an hour, a day or 30 days, depending on its resolution.",
    "measures.Rejection": "One for each host, deleted after a day.",
}
