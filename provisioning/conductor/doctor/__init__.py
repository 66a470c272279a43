"""The doctor: compares everything with everything, says in plain words what is wrong, and mends it on request.

One module for each subject; a check yields what it finds, and each finding knows its repair.
"""

from importlib import import_module

from provisioning.conductor.doctor.finding import Finding, check, checks, number
from provisioning.conductor.doctor.looks import examine, treat
from provisioning.conductor.doctor.runs import left, run, run_for

for _subject in (
    "tasks", "launches", "orders", "actions", "rooms", "addresses", "quota", "pictures", "guests", "belongings",
    "machines", "queues",
):  # fmt: skip
    import_module(f"{__name__}.{_subject}")

__all__ = ["Finding", "check", "checks", "examine", "left", "number", "run", "run_for", "treat"]
