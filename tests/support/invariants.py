"""What holds between transactions: the doctor finds nothing in the records."""

from __future__ import annotations

from provisioning.compute.models import Allocation, Instance
from provisioning.compute.states import VmState
from provisioning.doctor.checks import CHECKS
from provisioning.identity.models import KeyRecord
from tests.support.examined import examined

OTHERS = {"workers", "queue", "foreign_messages", "periodic", "webhook", "hosts", "messages"}
"""The doctor's checks of programs that tests do not run, and of words that tests make up."""


def check(*expected: str) -> None:
    """Fail with the doctor's sentences when anything does not add up; what it only notes is well.

    ``expected``: the checks that have to find something, because the test has broken it.
    """
    started = KeyRecord.objects.exists()  # by a process, which compares its keys with the cloud's
    names = [name for name in CHECKS if name not in OTHERS and (started or name != "keys")]
    result = [each for each in examined(names) if each.severity != "note"]
    wrong = [f"{each.check}: {each.subject}: {each.sentence}" for each in result if each.check not in expected]
    assert not wrong, "\n".join(wrong)
    assert {each.check for each in result} == set(expected)


def check_empty() -> None:
    """Nothing is held by anybody: every server is deleted, its host has confirmed it, and all adds up to that."""
    check()
    assert not Instance.objects.exclude(vm_state=VmState.DELETED).exists()
    assert not Allocation.objects.exists()
