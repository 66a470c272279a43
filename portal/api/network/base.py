"""The base of the Networking views."""

from portal.api.common.views import ServiceView


class NetworkView(ServiceView):
    """A resource of the Networking API."""

    service = "network"
