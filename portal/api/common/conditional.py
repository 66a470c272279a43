"""Answers that a client has already: ``ETag`` and ``If-None-Match``.

An ETag is the digest of a body.  Who shows one is answered 304 without a body while the body would be the same.  For a
list to cost little then, it is not made again: the first 304 remembers which statements read the database for it and
the digest of their rows, and later ones only send these statements anew.  Nothing else tells a list that has changed
from one that has not, no time and no number of an event: whatever changes it is seen at once, whoever did it.

What a view makes its answer of beside the database has to be in the key: the address, the microversion, the caller and
the rules in force.  A view whose answer depends on more (the time of day, a file) is not remembered.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from django.utils.http import parse_etags
from rest_framework.response import Response

from portal.api.common.rendering import Rendered, written
from portal.api.common.views import ServiceView
from provisioning.common.recorded_reads import Reads, recorded
from provisioning.identity import policy

MOST_TAGS = 8
"""ETags of one request that are looked at."""
MOST_REMEMBERED = 16 << 20
"""Bytes of statements that one process remembers."""
MOST_OF_ONE = 1 << 20


class _Remembered:
    """Lists that clients have shown ETags of, the latest last."""

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
        """Keep it in the place of what was not asked for for the longest time."""
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
    """Answer 200 with what ``make`` returns, or 304 to a client that has it already.

    ``remember``: whether that depends on nothing but the database and what every answer depends on.
    """
    asked = [tag.removeprefix("W/") for tag in parse_etags(view.request.headers.get("If-None-Match", ""))]
    if not asked:
        return _whole(written(make()))
    key = _key(view)
    for tag in asked[:MOST_TAGS]:
        known = remembered.get((key, tag))
        if known is not None and known.are_the_same():
            return _unchanged(tag)
    with recorded() as recording:
        body = written(make())
    reads, tag = recording.reads, _tag(body)
    if remember and reads is not None and _key(view) == key:
        remembered.put((key, tag), reads)
    return _unchanged(tag) if tag in asked or "*" in asked else _whole(body)


def _whole(body: Rendered) -> Response:
    return Response(body, headers={"ETag": _tag(body)})


def _unchanged(tag: str) -> Response:
    return Response(status=304, headers={"ETag": tag})


def _tag(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'


def _key(view: ServiceView) -> Hashable:
    """Return what an answer depends on beside the database; the same key and the same rows make the same answer."""
    context = getattr(view, "context", None)
    if context is not None:
        context = replace(context, request_id="", global_request_id=None, audit_id="", sign_in_id=None)
    address = view.request.build_absolute_uri()
    return type(view), address, view.microversion, context, policy.version()
