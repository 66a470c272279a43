"""The doctor's rounds by the clock: a job in the queue, because looking at everything may take a while."""

import logging

from django.conf import settings

from provisioning.doctor import runs
from provisioning.jobs.cast import cast
from provisioning.jobs.registry import job, periodic
from provisioning.jobs.selectors import waiting_jobs

JOB = "doctor.examine"
TOPIC = "conductor"
TOLD = 20
"""Findings of one round in the log."""

log = logging.getLogger(__name__)


@job(JOB, topic=TOPIC, long=True)
def examine() -> None:
    """Examine the cloud, mend it where NOVELLA_DOCTOR_REPAIR says so, and keep and log what was found."""
    run = runs.run("clock", repair=settings.DOCTOR_REPAIR)
    wrong = [each for each in run.findings if each["severity"] != "note" and each["repaired"] is None]
    for each in wrong[:TOLD]:
        log.warning("Doctor: %s: %s", each["subject"], each["sentence"])
    if wrong:
        log.warning("The doctor found %s things wrong; 'manage.py doctor' says more.", len(wrong))


def ask() -> None:
    """Ask for a round, unless one waits or is being made."""
    if next(waiting_jobs(JOB), None) is None:
        cast(TOPIC, JOB)


if settings.DOCTOR_INTERVAL:
    periodic("doctor.run", every=float(settings.DOCTOR_INTERVAL))(ask)

KEPT = {"doctor.DoctorRun": f"The last {runs.KEPT} are kept."}
