"""The base of the Image views."""

from portal.api.common.views import ServiceView


class ImageView(ServiceView):
    """A resource of the Image API."""

    service = "image"
