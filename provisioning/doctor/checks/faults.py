"""Servers in error without an explanation, and error messages that users cannot understand."""

import re
from collections.abc import Iterator

from provisioning.common.database.prepared import Prepared
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
    """Find servers in the ERROR state without a fault, unless an operator has set their state."""
    for row in UNEXPLAINED():
        yield Finding("warning", named(row), "It is in the error state without a fault.", evidence=moment_of(row))


@check("messages")
def unreadable() -> Iterator[Finding]:
    """Find error messages shown to users that contain program internals; each is a bug of Novella."""
    faults = InstanceFault.objects.order_by("id").values_list("instance_id", "message")
    for instance_id, message in faults.iterator():
        if not is_readable(message):
            yield Finding(
                "warning",
                f"instance {instance_id}",
                f"The message of its fault contains program internals: {message!r}.",
            )
    failed = InstanceAction.objects.exclude(message=None).exclude(message="").order_by("id")
    for instance_id, action, text in failed.values_list("instance_id", "action", "message").iterator():
        if text and not is_readable(text):
            sentence = f"The message of its action {action} contains program internals: {text!r}."
            yield Finding("warning", f"instance {instance_id}", sentence)


def is_readable(message: str) -> bool:
    """Return whether a message has several words and contains no program internals, such as tracebacks or addresses."""
    return " " in message and _OF_A_PROGRAM.search(message) is None
