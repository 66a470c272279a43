"""``GET /openapi.json`` and ``/openapi.yaml``: public, because the content is the same as in OpenStack's API
references.

Only the document of the newest microversion is public: generation of an older one takes up to 0.3 s.
"""

import hashlib
import re
import zlib
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import View

from portal.api.common.authentication import challenge
from portal.api.common.links import SERVICES
from portal.api.common.microversions import Version, text_of
from portal.api.compute.dialect import MICROVERSIONS
from portal.api.openapi.document import BusyError, edition, packed
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.selectors.tokens import context_for_token

_FORM = re.compile(r"([0-9]{1,3})\.([0-9]{1,4})", re.ASCII)


class OpenApiJson(View):
    """The document; ``microversion`` (default: the newest) selects the edition, ``service`` one service."""

    http_method_names = ["get", "head"]
    media_type = "application/json"
    form = "json"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with the document, or 304 if the client has it."""
        service = request.GET.get("service") or None
        version = _version(request.GET.get("microversion", "latest"))
        if version is None or (service is not None and service not in SERVICES):
            span = f"{text_of(MICROVERSIONS.minimum)} to {text_of(MICROVERSIONS.maximum)}"
            return _refusal(
                400, f"microversion is one from {span}, or latest; service is one of {', '.join(SERVICES)}."
            )
        if edition(version, service) != MICROVERSIONS.maximum and not _is_signed_in(request):
            refusal = _refusal(401, "Without a token there is the document of the newest microversion only.")
            refusal["WWW-Authenticate"] = challenge(request)
            return refusal
        try:
            body = packed(version, service, self.form)
        except BusyError:
            refusal = _refusal(503, "Another edition is being generated. Try again.")
            refusal["Retry-After"] = "1"
            return refusal
        tag = f'W/"{self.media_type[-4:]}-{hashlib.sha256(body).hexdigest()[:24]}"'
        if tag in request.headers.get("If-None-Match", ""):
            answer = HttpResponse(status=304)
        else:
            answer = self.answer(body, zipped="gzip" in request.headers.get("Accept-Encoding", ""))
        answer["ETag"], answer["Vary"], answer["Cache-Control"] = tag, "Accept-Encoding", "no-cache"
        return answer

    def answer(self, body: bytes, *, zipped: bool) -> HttpResponse:
        """Return the document as cached, or uncompressed for clients without gzip."""
        if not zipped:
            return HttpResponse(zlib.decompress(body, wbits=31), content_type=self.media_type)
        return HttpResponse(body, content_type=self.media_type, headers={"Content-Encoding": "gzip"})


class OpenApiYaml(OpenApiJson):
    """The document as YAML."""

    media_type = "application/yaml"
    form = "yaml"


def _is_signed_in(request: HttpRequest) -> bool:
    """Whether the browser's session or ``X-Auth-Token`` is valid."""
    if getattr(request, "context", None) is not None:
        return True
    try:
        context_for_token(request.headers.get("X-Auth-Token", ""))
    except NotAuthenticatedError:
        return False
    return True


def _refusal(status: int, description: str) -> HttpResponse:
    title = HTTPStatus(status).phrase
    return JsonResponse({"error": {"code": status, "title": title, "message": description}}, status=status)


def _version(text: str) -> Version | None:
    if text == "latest":
        return MICROVERSIONS.maximum
    found = _FORM.fullmatch(text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    return version if MICROVERSIONS.minimum <= version <= MICROVERSIONS.maximum else None
