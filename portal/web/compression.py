"""Compresses pages and the APIs' answers for clients that accept gzip; static files are compressed when collected.

BREACH (an attacker who sees sizes of compressed answers and chooses a part of their text can guess a secret in them) is
met in three ways: Django masks the CSRF token in each page and adds up to 100 random bytes to each compressed body, and
answers of the APIs that have a secret in them, which are those with ``Cache-Control: no-store``, are sent as they are.
"""

import re
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

LEAST = 1000
"""Bytes of a body that is worth the work."""
_TEXTS = re.compile(r"text/|application/(json|xml|javascript|[\w.]+\+json)\b|image/svg\+xml")


class CompressionMiddleware(GZipMiddleware):
    """Django's, for texts that are in memory: no streams, no images of disks, no secrets."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            patch_vary_headers(response, ("Accept-Encoding",))
        return super().process_response(request, response) if _pays(response) else response


def _pays(response: HttpResponseBase) -> bool:
    """Return whether an answer is a text, is long enough, and has no secret in it."""
    if not isinstance(response, HttpResponse) or len(response.content) < LEAST:
        return False
    return bool(_TEXTS.match(response.get("Content-Type", ""))) and "no-store" not in response.get("Cache-Control", "")
