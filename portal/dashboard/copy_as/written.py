"""The calls of a click in each form, for the dialog and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from portal.common.http.public_url import public_url
from portal.dashboard.copy_as.calls import Call, FormName
from portal.dashboard.copy_as.client_files import CLOUD
from portal.dashboard.copy_as.forms import ansible, command, curl, python, terraform
from portal.dashboard.copy_as.forms.place import LABELS, Place, Write
from provisioning.common.context import RequestContext
from provisioning.identity.records.catalog import PATHS

ASKED = "copy_as"
"""Name of the button that requests the lines instead of running the action."""
FORMS: Mapping[str, tuple[str, FormName, Write]] = {
    "openstack": ("openstack", "option", command.write),
    "curl": ("curl", "body", curl.write),
    "terraform": ("Terraform", "terraform", terraform.write),
    "ansible": ("Ansible", "ansible", ansible.write),
    "python": ("Python", "python", python.write),
}
"""Key → title, form of the names, and the function that writes the text."""


@dataclass(frozen=True, slots=True)
class Written:
    """A form's text; ``reason`` is the explanation if it has none."""

    key: str
    title: str
    text: str
    reason: str = ""


def written(calls: Sequence[Call], place: Place) -> list[Written]:
    """Return the calls in every form."""
    result = []
    for key, (title, form, write) in FORMS.items():
        if all(call.kind.named(form) is None for call in calls):
            result.append(Written(key, title, "", f"{LABELS[form]} has no equivalent of this."))
        else:
            result.append(Written(key, title, write(calls, place)))
    return result


def place_of(request: HttpRequest, context: RequestContext) -> Place:
    """Return this cloud for clients with the ``clouds.yaml`` of *API access*."""
    urls = {face: f"{public_url(request)}{path}" for face, path in PATHS.items()}
    urls["network"] += "/v2.0"
    urls["volume"] += f"/{(context.project_id.hex if context.project_id else '')}"
    return Place(CLOUD, urls)
