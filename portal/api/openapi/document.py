"""Generation of the document: drf-spectacular enumerates the routes, ``OperationSchema`` reads each view.

``GET /openapi.json`` and ``/openapi.yaml`` are public, because the content is the same as in OpenStack's API
references. Only the document of the newest microversion is public: generation of an older one takes up to 0.3 s.
"""

import hashlib
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson
import yaml
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import View
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from rest_framework.request import Request
from rest_framework.views import APIView

from portal.api.compute.dialect import MICROVERSIONS, LegacyView
from portal.api.frame import SERVICES, Json, NoSuchResource, ServiceView, Version, challenge, text_of
from portal.api.openapi.operations import OperationSchema, components, span
from portal.api.volume.dialect import MICROVERSIONS as VOLUME_MICROVERSIONS
from portal.common.http.routing import route_of_service
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.selectors.tokens import context_for_token

Document = Json
Endpoint = tuple[str, str, str, Callable[..., Any]]

DESCRIPTION = (
    "The APIs of this cloud, as in the references of OpenStack. Requests are described in full; responses by their"
    " status and the format of errors."
)


class Endpoints(EndpointEnumerator):
    """The routes of the services, each path without its optional ending."""

    def get_path_from_regex(self, path_regex: str) -> str:
        """Return a path such as ``/network/v2.0/ports/{identity}`` for the regular expression of a route."""
        plain = re.sub(r"\(\?:\\\.json\)\?|/\?(?=\$|\\Z)|\\Z", "", path_regex)
        path: str = super().get_path_from_regex(plain)
        return path if len(path) == 1 else path.rstrip("/")

    def should_include_endpoint(self, path: str, callback: Any) -> bool:
        """Omit catch-all routes, and v2.0, which repeats v2.1."""
        view = getattr(callback, "cls", None)
        return view is not None and not issubclass(view, NoSuchResource | LegacyView)


class DocumentGenerator(SchemaGenerator):
    """The document of one service at one microversion."""

    endpoint_inspector_cls = Endpoints

    def __init__(self, service: str, version: Version) -> None:
        """Restrict the enumeration to the routes of the service."""
        super().__init__(patterns=[route_of_service(service)])
        self.microversion = NEWEST_OF.get(service, version)

    def create_view(self, callback: Any, method: str, request: Request | None = None) -> APIView:
        """Return the view at the microversion."""
        view: ServiceView = super().create_view(callback, method, request)
        view.microversion = self.microversion
        self._set_schema_to_view(view, OperationSchema())
        return view

    def coerce_path(self, path: str, method: str, view: APIView) -> str:
        return named(type(view), path)

    def _get_paths_and_endpoints(self) -> list[tuple[str, str, str, ServiceView]]:
        """Omit operations that the microversion does not have."""
        found: list[tuple[str, str, str, ServiceView]] = super()._get_paths_and_endpoints()
        return [each for each in found if _has(each[3], each[2], self.microversion)]


def _has(view: ServiceView, method: str, version: Version) -> bool:
    first, last = span(view, method)
    return view.microversions is None or first <= version <= last


def named(view: type, path: str) -> str:
    """Return the path with the parameter names of OpenStack's API references."""
    resource = getattr(view, "resource", None)
    return path if resource is None else path.replace("{identity}", f"{{{resource.parameter}}}")


def make_document(version: Version, service: str | None = None) -> Document:
    """Return the document of all services, or of one."""
    document: Document = {}
    for each in SERVICES if service is None else (service,):
        made: Document = DocumentGenerator(each, version).get_schema(public=True)
        document = document or made
        document["paths"] |= made["paths"]
    document["info"] = {
        "title": "Novella",
        "version": text_of(version),
        "description": DESCRIPTION,
    }
    document["servers"] = [{"url": "/"}]
    document["components"] = components(version)
    return document


NEWEST_OF = {"volume": VOLUME_MICROVERSIONS.maximum}
"""Services other than Compute that have microversions → the microversion that the document describes, which is the
newest.
"""


class BusyError(Exception):
    """A document of an older microversion is already being generated."""


MOST_OLDER = 12
"""Maximum number of cached documents of older microversions, some 50 KiB each; the least recently used one is evicted.
"""
_newest: dict[tuple[str | None, str], bytes] = {}
_older: OrderedDict[tuple[Version, str | None, str], bytes] = OrderedDict()
_making_newest, _making_older = threading.Lock(), threading.Lock()


def edition(version: Version, service: str | None) -> Version:
    """Return the microversion of the document. Only two documents differ by microversion: the document of Compute, and
    the document of all services together.
    """
    return version if service in {None, "compute"} else MICROVERSIONS.maximum


def packed(version: Version, service: str | None = None, form: str = "json") -> bytes:
    """Return the document as JSON or YAML (``form``), compressed with gzip.

    The dozen documents of the newest microversion are generated once in each process. Of the hundreds of older
    microversions, a few documents are cached. Generation takes up to 0.3 s. Documents of older microversions are
    generated one at a time, so that they occupy at most one thread; a second request in the meantime raises BusyError.
    """
    version = edition(version, service)
    if version == MICROVERSIONS.maximum:
        with _making_newest:
            if (service, form) not in _newest:
                _newest[service, form] = _make(version, service, form)
            return _newest[service, form]
    key = (version, service, form)
    if not _making_older.acquire(blocking=False):
        raise BusyError
    try:
        if key not in _older:
            _older[key] = _make(version, service, form)
        _older.move_to_end(key)
        while len(_older) > MOST_OLDER:
            _older.popitem(last=False)
        return _older[key]
    finally:
        _making_older.release()


def _make(version: Version, service: str | None, form: str) -> bytes:
    return zlib.compress(_FORMS[form](make_document(version, service)), wbits=31)


def _yaml(document: Json) -> bytes:
    plain = orjson.loads(orjson.dumps(document))  # the dumper accepts only plain types
    text: str = yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)
    return text.encode()


_FORMS: dict[str, Callable[[Json], bytes]] = {"json": orjson.dumps, "yaml": _yaml}


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
            refusal = _refusal(401, "Without a token only the document of the newest microversion is available.")
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
