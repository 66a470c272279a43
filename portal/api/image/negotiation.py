"""API version of a request to the Image API: in the path, ``/v2.7/images``, or in ``Accept``.

As in Glance, every minor version is version 2, and an unknown version gets the list of versions (300).
"""

import re

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import resolve

MINOR_VERSIONS = (17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
"""Minor versions of v2, newest first.

2.1 added members, 2.2 protected properties, 2.3 deactivation, 2.5 shared and community images, 2.6 imports, 2.7 hidden
images and the multihash, 2.8 named stores (there is one), 2.12 the tasks of an image, 2.17 locations as resources. The
cache (2.14, 2.16, 2.18) is not supported.
"""
KNOWN = {"v2", *(f"v2.{minor}" for minor in MINOR_VERSIONS)}
MEDIA_TYPE = "application/vnd.openstack.images-"
_SERVICE = "/image"
_VERSION = re.compile("^/*([^/]*)")
_MARK = "_image_version_known"


def asks_by_type(request: HttpRequest) -> bool:
    """Whether the request's ``Accept`` specifies an API version that is not yet resolved. Under ``/versions`` the
    header is ignored.
    """
    named = request.headers.get("Accept", "").startswith(MEDIA_TYPE)
    return named and not hasattr(request, _MARK) and _version_in(_path_of(request)) != "versions"


def negotiated(request: HttpRequest) -> HttpResponseBase:
    """Answer a request in the API version that it specifies; an unknown version gets the list of versions."""
    path = _path_of(request)
    if asks_by_type(request):
        version, rest = request.headers["Accept"].removeprefix(MEDIA_TYPE), path
    else:
        version, rest = _version_in(path), _VERSION.sub("", path)
    setattr(request, _MARK, True)
    match = resolve(f"{_SERVICE}/v2{rest}" if version in KNOWN else f"{_SERVICE}/")
    request.resolver_match = match
    answer: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    return answer


def version_of(request: HttpRequest) -> str:
    """Return the version segment of the path."""
    return _version_in(_path_of(request))


def _path_of(request: HttpRequest) -> str:
    return request.path_info.removeprefix(_SERVICE)


def _version_in(path: str) -> str:
    return _VERSION.match(path)[1]  # type: ignore[index]
