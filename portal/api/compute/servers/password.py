"""``/servers/{id}/os-server-password``: the guest's password, encrypted with the owner's public key."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from provisioning.compute import selectors
from provisioning.compute.services.instances import clear_password


class ServerPasswordView(ComputeView):
    """The encrypted password of a server's administrator."""

    rules = {"GET": "os_compute_api:os-server-password:show", "DELETE": "os_compute_api:os-server-password:clear"}

    def get(self, request: Request, server_id: str) -> Response:
        """Show the encrypted password; empty if the guest has not posted a password."""
        return Response({"password": selectors.instance_for(self.context, server_id).password})

    def delete(self, request: Request, server_id: str) -> Response:
        """Delete the stored password; the password in the guest is unchanged."""
        clear_password(self.context, server_id)
        return Response(status=204)
