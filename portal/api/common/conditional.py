"""Conditional responses: ``ETag`` and ``If-None-Match``.

An ETag is the digest of a body. A client that sends the ETag of an earlier response gets 304 without a body while the
body is unchanged. To make this cheap for lists, the first 304 remembers the statements that read the database and the
digest of their rows; later requests only repeat these statements instead of building the list. Changes are detected
from the rows alone, not from timestamps or event numbers, so that every change is visible immediately.

The key must contain everything other than the database that a response depends on: address, microversion, caller and
policy in force. A view whose response depends on more (the time of day, a file) is not remembered.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar, cast

from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.bodies import Rendered, written
from portal.api.common.views import ServiceView
from provisioning.common.database.recorded_reads import Reads, recorded
from provisioning.identity import policy

MOST_TAGS = 8
"""Maximum number of ETags in one request that are compared."""
MOST_REMEMBERED = 16 << 20
"""Maximum bytes of statements that one process remembers."""
MOST_OF_ONE = 1 << 20
View = TypeVar("View", bound=ServiceView)


class _Remembered:
    """Statements of lists whose ETags clients have sent, least recently used first."""

    def __init__(self) -> None:
        self._reads: OrderedDict[Hashable, Reads] = OrderedDict()
        self._weight = 0
        self._turn = threading.Lock()

    def get(self, key: Hashable) -> Reads | None:
        with self._turn:
            found = self._reads.get(key)
            if found is not None:
                self._reads.move_to_end(key)
            return found

    def put(self, key: Hashable, reads: Reads) -> None:
        """Store an entry and evict the least recently used ones."""
        if reads.weight > MOST_OF_ONE:
            return
        with self._turn:
            self._weight += reads.weight - (self._reads[key].weight if key in self._reads else 0)
            self._reads[key] = reads
            while self._weight > MOST_REMEMBERED:
                self._weight -= self._reads.popitem(last=False)[1].weight

    def clear(self) -> None:
        with self._turn:
            self._reads.clear()
            self._weight = 0


remembered = _Remembered()


def answer(view: ServiceView, make: Callable[[], Any], *, remember: bool = True) -> Response:
    """Answer 200 with the value of ``make``, or 304 if the client's ETag is current.

    ``remember`` requires that the value depends only on the database and the key; it is False for other values.
    """
    tags = [tag.removeprefix("W/") for tag in parse_etags(view.request.headers.get("If-None-Match", ""))]
    if not tags:
        return _whole(written(make()))
    key = _key(view)
    for tag in tags[:MOST_TAGS]:
        known = remembered.get((key, tag))
        if known is not None and known.are_the_same():
            return _unchanged(tag)
    with recorded() as recording:
        body = written(make())
    reads, tag = recording.reads, _tag(body)
    if remember and reads is not None and _key(view) == key:
        remembered.put((key, tag), reads)
    return _unchanged(tag) if tag in tags or "*" in tags else _whole(body)


def document(
    base: type[View], sentence: str, content: Callable[[View], Any], status: int = 200, **members: Any
) -> type[View]:
    """Return a public view for GET of a document that depends on no user, such as the list of versions.

    ``sentence``: its description in the OpenAPI document. Only documents with status 200 have an ETag.
    """

    def get(view: View, request: Request, **ids: str) -> Response:
        if status != 200:
            return Response(content(view), status=status)
        return answer(view, lambda: content(view), remember=False)

    own = {"public": True, "get": get, "sentences": {"GET": sentence}, "__module__": __name__, "__doc__": sentence}
    return cast("type[View]", type(f"Document_{base.__name__}", (base,), own | members))


def _whole(body: Rendered) -> Response:
    return Response(body, headers={"ETag": _tag(body)})


def _unchanged(tag: str) -> Response:
    return Response(status=304, headers={"ETag": tag})


def _tag(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'


def _key(view: ServiceView) -> Hashable:
    """Return all inputs of a response other than the database; equal keys and equal rows give equal responses."""
    context = getattr(view, "context", None)
    if context is not None:
        context = replace(context, request_id="", global_request_id=None, audit_id="", sign_in_id=None)
    address = view.request.build_absolute_uri()
    return type(view), address, view.microversion, context, policy.version()
