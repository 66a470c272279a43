"""The base of the Image views."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from portal.api.common.views import ServiceView
from portal.api.image.negotiation import asks_by_type, negotiated


class ImageView(ServiceView):
    """A resource of the Image API."""

    service = "image"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Answer as the version that the client asks for by ``Accept``, when it does, else by the address alone."""
        if asks_by_type(request):
            return negotiated(request)
        return super().dispatch(request, *args, **kwargs)
