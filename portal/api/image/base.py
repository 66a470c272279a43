"""Base of the Image views."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from portal.api.common.views import ServiceView
from portal.api.image.negotiation import asks_by_type, negotiated


class ImageView(ServiceView):
    """A resource of the Image API."""

    service = "image"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Answer in the API version of the ``Accept`` header, if the client specified one."""
        if asks_by_type(request):
            return negotiated(request)
        return super().dispatch(request, *args, **kwargs)
