"""Processors of guests."""

from provisioning.common.environment import one_of

CPU_BASELINE = one_of("NOVELLA_CPU_BASELINE", "host", ("host", "aggregate", "zone", "cloud"))
"""The processor of guests from their next start: ``host``: everything that their host offers; ``aggregate``: only
the features that all hosts of its aggregates with the metadata ``cpu_baseline=true`` offer; ``zone``: only those that
all hosts of its availability zone offer; ``cloud``: only those that all hosts of the cloud offer. With a baseline,
guests can be migrated live between hosts with different processors ([processors](operator-guide.md#processors)).
"""
