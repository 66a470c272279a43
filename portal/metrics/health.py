"""``/healthz``: whether launching works."""

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from provisioning.hosts.selectors import usable_hosts
from provisioning.jobs.selectors import live_workers


@require_GET
def health(request: HttpRequest) -> HttpResponse:
    """Whether launching works: 200 or 503, and why, without naming anything."""
    try:
        workers, hosts_up = live_workers(), usable_hosts()
    except Error:
        workers = hosts_up = 0
    ok = workers > 0 and hosts_up > 0
    body = {"status": "ok" if ok else "starting", "web": True, "workers": workers, "hosts_up": hosts_up}
    return JsonResponse(body, status=200 if ok else 503)
