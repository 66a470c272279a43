"""What holds between transactions: the doctor finds nothing in the records."""

from __future__ import annotations

from provisioning.compute.models import Allocation, Instance
from provisioning.compute.states import VmState
from provisioning.doctor.examination import findings
from provisioning.doctor.finding import checks

OTHERS = {"workers", "queue", "foreign_messages", "periodic", "webhook", "hosts", "messages"}
"""The doctor's checks of programs that tests do not run, and of words that tests make up."""


def check() -> None:
    """Fail with the doctor's sentences when anything does not add up; what it only notes is well."""
    found = findings(checks.keys() - OTHERS)
    wrong = [f"{each.check}: {each.subject}: {each.sentence}" for each in found if each.severity != "note"]
    assert not wrong, "\n".join(wrong)


def check_empty() -> None:
    """Nothing is held by anybody: every server is deleted, its host has confirmed it, and all adds up to that."""
    check()
    assert not Instance.objects.exclude(vm_state=VmState.DELETED).exists()
    assert not Allocation.objects.exists()
