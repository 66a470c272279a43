"""The target of the calls: the addresses of the services, and the cloud's name in ``clouds.yaml``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from portal.dashboard.copy_as.calls import Call, FormName

MANY = "several"


@dataclass(frozen=True, slots=True)
class Place:
    """A cloud as its clients see it. ``urls``: first part of a service's path → the service's address."""

    cloud: str
    urls: Mapping[str, str]


Write = Callable[[Sequence[Call], Place], str]

LABELS: Mapping[FormName, str] = {
    "body": "The API",
    "option": "The command openstack",
    "python": "openstacksdk",
    "terraform": "The Terraform provider",
    "ansible": "The collection openstack.cloud",
}


def remarks(call: Call, form: FormName) -> list[str]:
    """Return sentences about the parts of a call that the form cannot express."""
    label, missing = LABELS[form], call.missing(form)
    result = ["".join(each if each.isprintable() else " " for each in note) for note in call.notes]
    if call.kind.named(form) is None:
        thing = call.kind.key.replace("_", " ")
        return [*result, f"{label} has nothing for this step: {thing}."]
    if missing:
        result.append(f"{label} has no setting for: {', '.join(missing).replace('_', ' ')}.")
    return result


def since(call: Call) -> str:
    """Return the newest microversion that the values of a call need; empty for none."""
    versions = [each.since for each, _ in call.given() if each.since]
    return max(versions, key=lambda text: [int(part) for part in text.split(".")], default="")
