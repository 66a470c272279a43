"""The doctor."""

from provisioning.common.environment import flag, integer

DOCTOR_INTERVAL = integer("NOVELLA_DOCTOR_INTERVAL", 3600, 0, 2_592_000)
"""Seconds between two automatic runs of [the doctor](operator-guide.md#the-doctor); 0: none."""
DOCTOR_REPAIR = flag("NOVELLA_DOCTOR_REPAIR", default=False)
"""Whether the automatic runs repair their findings."""
