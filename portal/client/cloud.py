"""Authentication as in OpenStack's clients (clouds.yaml, ``OS_…``), and look-up of servers."""

import contextlib
import getpass
import re
from typing import Any

import openstack.exceptions
from keystoneauth1 import exceptions as auth_errors
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from portal.client.errors import FAILED, FORBIDDEN, NOT_FOUND, NOT_SIGNED_IN, UNREACHABLE, ClientError
from portal.client.links import Link, tunnel_url

FRESH = 600
"""Minimum remaining lifetime in seconds of the token of a new connection: the connection ends when the
token expires.
"""
DEFAULT_LOGIN = "root"
_ID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")


class Cloud:
    """A connection to a cloud."""

    def __init__(self, name: str | None) -> None:
        """Authenticate with the cloud of this name in clouds.yaml, by default the cloud that the environment specifies.

        Raises ClientError.
        """
        try:
            region = OpenStackConfig(pw_func=_ask, app_name="novella").get_one(cloud=name)
            self._connection = Connection(config=region)
            self._compute = str(self._connection.compute.get_endpoint() or "")
        except openstack.exceptions.ConfigException as error:
            raise ClientError(f"{error}", NOT_SIGNED_IN) from error
        except (auth_errors.ClientException, EOFError) as error:
            raise _explained(error) from error
        if not self._compute:
            raise ClientError("The cloud offers no compute service.", UNREACHABLE)

    def server(self, name: str) -> Any:
        """Return the server with this id or name. Raises ClientError."""
        compute = self._connection.compute
        try:
            if _ID.fullmatch(name):
                with contextlib.suppress(openstack.exceptions.NotFoundException):
                    return compute.get_server(name)
            # The SDK's find_server uses the name as a pattern without escaping it, and finds no names with brackets.
            named = compute.servers(name=f"^{re.escape(name)}$")
            matches = [server for server in named if server.name == name]
        except (openstack.exceptions.SDKException, auth_errors.ClientException) as error:
            raise _explained(error) from error
        if not matches:
            raise ClientError(f"There is no server {name}.", NOT_FOUND)
        if len(matches) > 1:
            raise ClientError(f"There are several servers called {name}: use the id.", NOT_FOUND)
        return matches[0]

    def login(self, server: Any) -> str:
        """Return the login user in the image's ``os_admin_user``, by default ``root``."""
        image = (server.image or {}).get("id")
        login = None
        if image:
            with contextlib.suppress(openstack.exceptions.SDKException, auth_errors.ClientException):
                login = self._connection.image.get_image(image).os_admin_user
        return str(login or DEFAULT_LOGIN)

    def link(self, server: Any, port: int, address: str | None) -> Link:
        """Return a link for a tunnel, with a token that remains valid for some time. Raises ClientError."""
        session = self._connection.session
        try:
            auth = session.auth
            if isinstance(auth, BaseIdentityPlugin) and auth.get_access(session).will_expire_soon(FRESH):
                session.invalidate()
            token = str(session.get_token() or "")
        except auth_errors.ClientException as error:
            raise _explained(error) from error
        try:
            url = tunnel_url(self._compute, server.id, port, address)
        except ValueError as error:
            raise ClientError(f"The cloud's compute service at {error} offers no tunnels.", UNREACHABLE) from error
        verify = session.verify
        return Link(url, token, verify=bool(verify), cafile=verify if isinstance(verify, str) else None)


def _ask(prompt: str | None = None) -> str:
    return getpass.getpass(prompt or "Password: ")


def _explained(error: Exception) -> ClientError:
    """Convert an error of the SDK into a one-line message."""
    status = getattr(error, "http_status", None) or getattr(error, "status_code", None)
    if status in {401, 403}:
        code, text = (NOT_SIGNED_IN, "The sign-in failed") if status == 401 else (FORBIDDEN, "The cloud refuses")
        return ClientError(f"{text}: {error}", code)
    if isinstance(error, auth_errors.ConnectFailure | auth_errors.DiscoveryFailure):
        return ClientError(f"The cloud cannot be reached: {error}", UNREACHABLE)
    if isinstance(error, auth_errors.MissingRequiredOptions | auth_errors.MissingAuthPlugin | EOFError):
        text = "Specify the cloud: --os-cloud, OS_CLOUD or the other OS_ variables"
        return ClientError(f"{text} ({error}).", NOT_SIGNED_IN)
    details = getattr(error, "details", None) or error
    return ClientError(f"The cloud answered: {details}", UNREACHABLE if status is None else FAILED)
