"""Launches whose next step is not queued."""

from collections.abc import Iterator

from django.db.models import F, Q

from provisioning.compute.launch.builds import BUILD_KINDS, is_waiting
from provisioning.compute.launch.retry import cast_schedule
from provisioning.compute.models import Allocation, Instance
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.doctor.repairs import moment_of, named, of_instance
from provisioning.jobs.selectors import waiting_jobs

JOB = "compute.schedule"


@check("launches")
def launches() -> Iterator[Finding]:
    """Find servers that wait for scheduling without a job in the queue.

    Servers that still have an allocation of an earlier attempt wait for that host, not for the queue.
    """
    conditions = Q()
    for kind in BUILD_KINDS:
        conditions |= Q(vm_state__in=kind.vm_states, task_state__in=kind.waiting)
    rows = list(Instance.objects.filter(conditions).order_by("id"))
    if not rows:
        return
    queued, held = _queued(), set(_of_earlier_attempts())
    for row in rows:
        if (str(row.id), row.attempt) not in queued and row.id not in held:
            sentence = f"It is {row.task_state}, but no scheduling job is queued for it."
            yield Finding("warning", named(row), sentence, "Queue the job again.", _cast(row), moment_of(row))


def _queued() -> set[tuple[str, object]]:
    return {(str(job.payload.get("instance_id")), job.payload.get("attempt")) for job in waiting_jobs(JOB)}


def _of_earlier_attempts() -> Iterator[object]:
    yield from Allocation.objects.filter(attempt__lt=F("instance__attempt")).values_list("instance_id", flat=True)


def _cast(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        if moment_of(row) != moment_of(instance) or not is_waiting(row) or (str(row.id), row.attempt) in _queued():
            return None
        cast_schedule(row)
        return "A scheduling job was queued."

    return of_instance(instance.id, work)
