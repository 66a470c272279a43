"""Servers."""

import re

from django.core.exceptions import ImproperlyConfigured

from provisioning.common.environment import flag, integer, seconds_by_name, text
from provisioning.jobs.settings import RETENTION_DAYS

CAST_TIMEOUT = integer("NOVELLA_CAST_TIMEOUT", 60, 1, 86_400)
"""Seconds that ``scheduling`` or ``networking`` of a launch may take before its job is cast again; at most
``NOVELLA_BUILD_TIMEOUT``.
"""
BUILD_TIMEOUT = integer("NOVELLA_BUILD_TIMEOUT", 600, 5, 86_400)
"""Seconds without progress after which the reaper ends or retries a launch."""
POWER_TIMEOUT = integer("NOVELLA_POWER_TIMEOUT", 180, 1, 86_400)
"""Seconds that a power action may take, or any other action that neither creates nor sends a disk."""
SNAPSHOT_TIMEOUT = integer("NOVELLA_SNAPSHOT_TIMEOUT", 3600, 5, 86_400)
"""Seconds without progress that a host may take to send the disk of a server as an image."""
LIVE_MIGRATION_TIMEOUT = integer("NOVELLA_LIVE_MIGRATION_TIMEOUT", 300, 5, 86_400)
"""Seconds without progress after which a live migration is examined. It ends when both hosts have reported, or when one
of them is forced down.
"""
LIVE_MIGRATION_LIMIT = integer("NOVELLA_LIVE_MIGRATION_LIMIT", 0, 0, 604_800)
"""Seconds that the transfer of a live migration may take in total; 0: no limit."""
LIVE_MIGRATION_AT_LIMIT = text("NOVELLA_LIVE_MIGRATION_AT_LIMIT", "abort")
"""Action for a live migration at its limit: ``abort``, or ``complete``, which pauses the server until its memory
is transferred, or uses post-copy where it is allowed.
"""
if LIVE_MIGRATION_AT_LIMIT not in {"abort", "complete"}:
    _message = f"NOVELLA_LIVE_MIGRATION_AT_LIMIT is {LIVE_MIGRATION_AT_LIMIT!r}; it must be abort or complete."
    raise ImproperlyConfigured(_message)
LIVE_MIGRATION_BANDWIDTH = integer("NOVELLA_LIVE_MIGRATION_BANDWIDTH", 0, 0, 1_000_000)
"""Limit of each live migration in MiB per second; 0: unlimited."""
LIVE_MIGRATION_POST_COPY = flag("NOVELLA_LIVE_MIGRATION_POST_COPY", default=False)
"""Whether a server may continue on the other host before all of its memory is available, when its migration is forced
to complete. If the connection breaks then, the server is lost. Servers with disks on their host never use it, nor do
hosts on which Linux does not allow it to QEMU (``vm.unprivileged_userfaultfd``).
"""
DELETE_TIMEOUT = integer("NOVELLA_DELETE_TIMEOUT", 300, 5, 86_400)
"""Seconds that the host may take to delete a server."""
TASK_TIMEOUTS = seconds_by_name("NOVELLA_TASK_TIMEOUTS", 1, 2_592_000)
"""Seconds for single task states, which override the setting of each state: ``rebuilding=900,deleting=60`` ([all of
them](operator-guide.md#deadlines)).
"""
SHELVED_OFFLOAD_TIME = integer("NOVELLA_SHELVED_OFFLOAD_TIME", 0, -1, 31_536_000)
"""Seconds that a shelved server stays on its host before it is offloaded (0: immediately, -1: never)."""
RECLAIM_INSTANCE_INTERVAL = integer("NOVELLA_RECLAIM_INSTANCE_INTERVAL", 0, 0, 31_536_000)
"""Seconds for which a deleted server is only stopped and can be restored (``openstack server restore``). During this
time the server keeps its allocation and quota, and clients wait for the end of the deletion; ``server delete --force``
deletes it immediately. 0: servers are deleted immediately.
"""
RESIZE_CONFIRM_WINDOW = integer("NOVELLA_RESIZE_CONFIRM_WINDOW", 0, 0, 31_536_000)
"""Seconds after which a resize is confirmed automatically if its owner has neither confirmed nor reverted it; until
then the larger of both flavors counts. 0: never.
"""
RESIZE_ON_OTHER_HOSTS = flag("NOVELLA_RESIZE_ON_OTHER_HOSTS", default=True)
"""Whether a server is resized on another host if its own host lacks the resources. A resize is always tried on the same
host first, which takes seconds; on another host the disks are copied while the server is stopped.
"""
ENABLE_INSTANCE_PASSWORD = flag("NOVELLA_ENABLE_INSTANCE_PASSWORD", default=True)
"""Whether a launch by the API without ``adminPass`` generates a password and returns it once; the guest reads it from
its config drive. It is valid on the guest's console; SSH accepts it only if the image allows passwords.
"""
INSTANCE_USAGE_AUDIT_PERIOD = text("NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD", "month")
"""Period of ``os-instance_usage_audit_log``: ``hour``, ``day``, ``month`` or ``year``, with ``@`` and its start
(``day@18``).
"""
if not re.fullmatch(
    r"hour(@[1-5]?\d)?|day(@(1?\d|2[0-3]))?|month(@([1-9]|1\d|2[0-8]))?|year(@([1-9]|1[0-2]))?",
    INSTANCE_USAGE_AUDIT_PERIOD,
):
    _message = (
        f"NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD is {INSTANCE_USAGE_AUDIT_PERIOD!r}; it must be hour, day, month or year,"
        " and may name where it begins: hour@30, day@18, month@15, year@3."
    )
    raise ImproperlyConfigured(_message)
_PERIOD = INSTANCE_USAGE_AUDIT_PERIOD.partition("@")[0]
_AUDITED = {"hour": 1, "day": 1, "month": 31, "year": 366}[_PERIOD]
if 0 < RETENTION_DAYS <= _AUDITED:
    _message = (
        f"NOVELLA_RETENTION_DAYS is {RETENTION_DAYS}; it must be 0 or more than {_AUDITED}, so that the usage audit"
        f" of a {_PERIOD} finds the servers that were deleted in it."
    )
    raise ImproperlyConfigured(_message)
