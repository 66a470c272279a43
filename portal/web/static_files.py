"""Static files, sent at the client's pace."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

from portal.web.streams import file_response


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise with streamed files, which Django would read into memory."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        """Return the response without reading its file."""
        found = static_file.get_response(request.method, request.META)
        if found.file is None:
            response: HttpResponseBase = HttpResponse()
        else:
            response = file_response(request, found.file, int(dict(found.headers)["Content-Length"]))
        response.status_code = int(found.status)
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response
