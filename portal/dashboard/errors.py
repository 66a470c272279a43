"""The pages for what goes wrong outside of a panel."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that it is Novella's fault, with the request's id, as the log has it."""
    return render(request, "500.html", status=500)
