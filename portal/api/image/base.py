"""The base of the Image views."""

from __future__ import annotations

from portal.api.common.views import ServiceView


class ImageView(ServiceView):
    """A resource of the Image API."""

    service = "image"
