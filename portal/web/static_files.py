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
        answer = static_file.get_response(request.method, request.META)
        if answer.file is None:
            response: HttpResponseBase = HttpResponse()
        else:
            response = file_response(request, answer.file, int(dict(answer.headers)["Content-Length"]))
        response.status_code = int(answer.status)
        del response["Content-Type"]
        for name, value in answer.headers:
            response[name] = value
        return response
