"""``/healthz``: whether servers can be launched."""

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from provisioning.hosts.selectors import usable_hosts
from provisioning.jobs.selectors import live_workers


@require_GET
def health(request: HttpRequest) -> HttpResponse:
    """Answer 200 if servers can be launched, or 503 with the reason. The reason contains no names of hosts."""
    missing = ""
    try:
        workers, hosts_up = live_workers(), usable_hosts()
    except Error:
        workers = hosts_up = 0
        missing = "no database"
    missing = missing or ("" if workers else "no workers") or ("" if hosts_up else "no hosts")
    ok = not missing
    body = {"status": missing or "ok", "web": True, "workers": workers, "hosts_up": hosts_up}
    return JsonResponse(body, status=200 if ok else 503)
