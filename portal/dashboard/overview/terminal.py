"""Short instructions for the terminal; the page *API access* has more."""

from dataclasses import dataclass

from django.http import HttpRequest

from portal.dashboard.copy_as.client_files import CLOUD, password_files
from provisioning.common.context import RequestContext


@dataclass(frozen=True, slots=True)
class Terminal:
    """Texts to copy."""

    clouds_yaml: str
    openrc: str
    example: str


def terminal_for(request: HttpRequest, context: RequestContext) -> Terminal:
    """Return the texts for this user in this project."""
    files = password_files(request, context)
    return Terminal(files.clouds_yaml.rstrip(), files.openrc.rstrip(), f"openstack --os-cloud {CLOUD} server list")
