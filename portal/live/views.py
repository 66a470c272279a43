"""What agents fetch over HTTP, and whether launching works."""

from __future__ import annotations

import uuid

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from portal.common.streams import file_response
from provisioning.common.errors import NotAuthenticatedError, NovellaError
from provisioning.compute.selectors import host_states
from provisioning.conductor import agents
from provisioning.images import selectors as images
from provisioning.rpc.selectors import live_workers


@require_GET
def image_bits(request: HttpRequest, instance_id: uuid.UUID, image_id: uuid.UUID) -> HttpResponseBase:
    """The bits of an image that the calling host needs for an order about an instance; 404 for anything else."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    name = request.headers.get("X-Novella-Host", "")
    try:
        host = agents.authenticate(name, credential.strip() if kind.lower() == "bearer" else "")
    except NotAuthenticatedError as error:
        return HttpResponse(error.message, status=401, content_type="text/plain")
    try:
        image = agents.image_for_order(host.id, instance_id, image_id)
        bits = images.open_data(image).open("rb")
    except (NovellaError, FileNotFoundError):
        return HttpResponse("There is no image for this host here.", status=404, content_type="text/plain")
    return file_response(request, bits, image.size or 0)


@require_GET
def health(request: HttpRequest) -> HttpResponse:
    """Whether launching works: 200 or 503, and why, without naming anything."""
    try:
        workers = live_workers()
        hosts_up = sum(state.alive and state.enabled and state.vcpus_total > 0 for state in host_states())
    except Error:
        workers = hosts_up = 0
    ok = workers > 0 and hosts_up > 0
    body = {"status": "ok" if ok else "starting", "web": True, "workers": workers, "hosts_up": hosts_up}
    response = JsonResponse(body, status=200 if ok else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # a cloud that starts is no error
    return response
