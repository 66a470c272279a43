"""Compresses pages and API responses for clients that accept gzip; static files are compressed when collected.

Three measures against BREACH (guessing a secret from the sizes of compressed responses with attacker-chosen text):
Django masks the CSRF token in each page, and adds up to 100 random bytes to each compressed body; API responses with a
secret, which have ``Cache-Control: no-store``, are not compressed.
"""

import re
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

LEAST = 1000
"""Minimum bytes of a compressed body."""
_TEXTS = re.compile(r"text/|application/(json|xml|javascript|[\w.]+\+json)\b|image/svg\+xml")


class CompressionMiddleware(GZipMiddleware):
    """Django's middleware, only for texts in memory: no streams, disk images or secrets."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            patch_vary_headers(response, ("Accept-Encoding",))
        return super().process_response(request, response) if _pays(response) else response


def _pays(response: HttpResponseBase) -> bool:
    """Whether compression is worthwhile and safe: the response is a text, long enough, and without a secret."""
    if not isinstance(response, HttpResponse) or len(response.content) < LEAST:
        return False
    return bool(_TEXTS.match(response.get("Content-Type", ""))) and "no-store" not in response.get("Cache-Control", "")
