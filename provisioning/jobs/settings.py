"""Workers and the queue."""

from provisioning.common.environment import integer

WORKERS = integer("NOVELLA_WORKERS", 2, 1, 64)
"""Queue workers of one worker group."""
LONG_JOBS = integer("NOVELLA_LONG_JOBS", 3, 1, 64)
"""Downloads and similar jobs that one worker process runs concurrently, in addition to its other work; one of them is
never an import.
"""
EVENT_RETENTION = integer("NOVELLA_EVENT_RETENTION", 3600, 60, 604_800)
"""Seconds that the live log is kept for pages that reconnect."""
RETENTION_DAYS = integer("NOVELLA_RETENTION_DAYS", 90, 0, 36_500)
"""Days that deleted servers and images, the history of servers and similar records are
[kept](operator-guide.md#retention); 0: for ever. Must be longer than the usage audit's period.
"""

JOB_HELD = 420  # seconds for which a message is claimed: more than the longest job
Q_CLUSTER = {
    "name": "novella",
    "orm": "default",
    "broker_class": "provisioning.jobs.queue.broker.Broker",
    "ALT_CLUSTERS": {},
    "workers": WORKERS,
    "queue_limit": WORKERS,
    "timeout": 120,
    "retry": JOB_HELD,
    "ack_failures": True,
    "max_attempts": 1,
    "save_limit": -1,
    "bulk": 1,
    "catch_up": False,
    "scheduler": False,
    "recycle": 5000,
    "guard_cycle": 0.5,
    "log_level": "WARNING",
}
