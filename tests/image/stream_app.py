"""A Django project behind the real web server: views that count what they are sent, and that send a file or bytes."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import path

from portal.web import daphne_internals, streams

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY="x" * 50,
    MIDDLEWARE=[],
    USE_TZ=True,
    DEBUG=False,
    DATA_UPLOAD_MAX_MEMORY_SIZE=1 << 20,
    UPLOAD_TIMEOUT=600,
    UPLOAD_LEAST_RATE=1,
)
django.setup()
LOG = Path(os.environ["STREAM_LOG"])


def _peak() -> int:
    """The most memory this process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{line}\n")


def count(request: HttpRequest) -> HttpResponse:
    """Count the body."""
    note("counting")
    total = 0
    try:
        for data in streams.body_of(request):
            total += len(data)
    except streams.BodyInterruptedError:
        note(f"interrupted after {total}")
        return HttpResponse(status=400)
    return JsonResponse({"total": total, "peak": _peak(), "exchanges": len(streams._open)})


def refuse(request: HttpRequest) -> HttpResponse:
    """Answer without reading."""
    return JsonResponse({"refused": True}, status=409)


def send(request: HttpRequest) -> HttpResponseBase:
    """Send as many bytes as asked for, from a sparse file."""
    size = int(request.GET["size"])
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the server closes it
    file.truncate(size)
    return streams.file_response(request, file, size)


CONTENT = bytes(16 << 20)


def make(request: HttpRequest) -> HttpResponse:
    """Send what is in memory."""
    return HttpResponse(CONTENT, headers={"Content-Length": str(len(CONTENT))})


def state(request: HttpRequest) -> HttpResponse:
    """Tell how much memory was used, and what is still open."""
    return JsonResponse(
        {"peak": _peak(), "exchanges": len(streams._open), "files": len(list(Path("/proc/self/fd").iterdir()))}
    )


urlpatterns = [path("count", count), path("refuse", refuse), path("send", send), path("make", make)]
urlpatterns += [path("state", state)]
daphne_internals.install()
application = get_asgi_application()
