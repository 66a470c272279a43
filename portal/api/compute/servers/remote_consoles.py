"""``/servers/{id}/remote-consoles`` and ``/os-console-auth-tokens`` (Compute API reference, "Servers consoles",
"Consoles").
"""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST, Version
from portal.api.common.validation import Schema
from portal.api.compute.dialect.base import ComputeView
from portal.common.console_urls import client_url
from portal.common.public_url import public_url
from provisioning.common.errors import InvalidInputError
from provisioning.compute.services.remote_consoles import create_console, find_token
from provisioning.identity.tokens.tokens import TokenData, read

_PROTOCOLS = ["vnc", "spice", "rdp", "serial"]
_TYPES = ["novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial"]


def console_schema(version: Version) -> Schema:
    """Return the body's schema; 2.8 added mks."""
    mks = version >= (2, 8)
    console: Schema = {
        "type": "object",
        "properties": {
            "protocol": {"type": "string", "enum": [*_PROTOCOLS, "mks"] if mks else _PROTOCOLS},
            "type": {"type": "string", "enum": [*_TYPES, "webmks"] if mks else _TYPES},
        },
        "required": ["protocol", "type"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"remote_console": console},
        "required": ["remote_console"],
        "additionalProperties": False,
    }


def token_of(view: ComputeView) -> TokenData:
    return read(view.request.headers.get("X-Auth-Token", ""))


class RemoteConsolesView(ComputeView):
    """Consoles of a server, from 2.6 on."""

    rules = {"POST": "os_compute_api:os-remote-consoles"}
    schemas: ClassVar = {"POST": console_schema}
    versions = {"POST": ((2, 6), NEWEST)}

    def post(self, request: Request, server_id: str) -> Response:
        """Create a console and return its address."""
        body = self.checked_body()["remote_console"]
        made = create_console(self.context, server_id, body["protocol"], body["type"], token_of(self))
        url = client_url(public_url(request), made.protocol, made.token)
        return Response({"remote_console": {"protocol": made.protocol, "type": made.console_type, "url": url}})


class ConsoleAuthTokenView(ComputeView):
    """The address of a token's console. Consoles have no port: they are sockets in a directory of the host."""

    rules = {"GET": "os_compute_api:os-console-auth-tokens"}

    def get(self, request: Request, console_token: str) -> Response:
        """Show the console's address without using up the token. Before 2.31 only RDP consoles were shown, which
        Novella does not support.
        """
        if self.microversion < (2, 31):
            raise InvalidInputError("The requested console type details are not accessible")
        instance = find_token(console_token).instance
        host = instance.host.name if instance.host else None
        return Response(
            {
                "console": {
                    "instance_uuid": str(instance.id),
                    "host": host,
                    "port": None,
                    "internal_access_path": None,
                }
            }
        )
