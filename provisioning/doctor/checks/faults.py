"""Why servers failed: whether anything says it, and in words for people."""

import re
from collections.abc import Iterator

from provisioning.common.prepared import Prepared
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.models import Instance, InstanceAction, InstanceFault
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, check
from provisioning.doctor.repairs import moment_of, named

_OF_A_PROGRAM = re.compile(r"Traceback|\b\w+(Error|Exception)\b|<class|\bNone\b|0x[0-9a-f]{6}|File \"")


UNEXPLAINED = Prepared(
    lambda: (
        Instance.objects.filter(vm_state=VmState.ERROR, faults=None)
        .exclude(actions__action=ResetState.record)
        .order_by("id")
    )
)


@check("faults")
def unexplained() -> Iterator[Finding]:
    """Find servers in error that no fault explains, unless an operator has set their state."""
    for row in UNEXPLAINED():
        yield Finding("warning", named(row), "It is in error, and nothing says why.", evidence=moment_of(row))


@check("messages")
def unreadable() -> Iterator[Finding]:
    """Find what users are told of a failure in words that are none for people: each is a defect of ours."""
    faults = InstanceFault.objects.order_by("id").values_list("instance_id", "message")
    for instance_id, message in faults.iterator():
        if not is_readable(message):
            yield Finding("warning", f"instance {instance_id}", f"A fault tells its user no more than {message!r}.")
    failed = InstanceAction.objects.exclude(message=None).exclude(message="").order_by("id")
    for instance_id, action, said in failed.values_list("instance_id", "action", "message").iterator():
        if said and not is_readable(said):
            sentence = f"The action {action} tells its user no more than {said!r}."
            yield Finding("warning", f"instance {instance_id}", sentence)


def is_readable(message: str) -> bool:
    """Whether a person can read it: several words, and nothing of a program's insides."""
    return " " in message and _OF_A_PROGRAM.search(message) is None
