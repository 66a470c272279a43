"""The scheduled runs of the doctor. They are queued jobs, because an examination may take long."""

import logging

from django.conf import settings

from provisioning.doctor.examinations import runs
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.registry import PeriodicJob, job
from provisioning.jobs.selectors import waiting_jobs

JOB = "doctor.examine"
TOPIC = "conductor"
MOST_LOGGED = 20
"""Maximum number of findings of one run that are logged."""

log = logging.getLogger(__name__)


@job(JOB, topic=TOPIC, long=True)
def examine() -> None:
    """Examine the cloud, repair it if NOVELLA_DOCTOR_REPAIR is set, and store and log the findings."""
    run = runs.run("clock", repair=settings.DOCTOR_REPAIR)
    wrong = [each for each in run.findings if each["severity"] != "note" and each["repaired"] is None]
    for each in wrong[:MOST_LOGGED]:
        log.warning("Doctor: %s: %s", each["subject"], each["sentence"])
    if wrong:
        log.warning("The doctor has %s unrepaired findings; run 'manage.py doctor' for all of them.", len(wrong))


def ask() -> None:
    """Queue a run, unless one is queued or running."""
    if next(waiting_jobs(JOB), None) is None:
        cast(TOPIC, JOB)


SCHEDULED = (PeriodicJob("doctor.run", float(settings.DOCTOR_INTERVAL), ask),) if settings.DOCTOR_INTERVAL else ()
UNPURGED = {"doctor.DoctorRun": f"The last {runs.MOST_RUNS} are kept."}
