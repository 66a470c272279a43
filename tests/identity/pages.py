"""Pages as bare as can be: who asks, sign in, sign out, switch; and the operators' admin."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path

from portal.common.http.redirects import safe_next
from portal.common.sign_in import sign_in, sign_out, switch_project
from provisioning.common.errors import NovellaError


def who(request: HttpRequest) -> HttpResponse:
    context = request.context  # type: ignore[attr-defined]
    return JsonResponse({
        "name": context.user_name if context else None,
        "project": context.project_name if context else None,
        "request_id": context.request_id if context else None,
        "user": str(request.user),
    })  # fmt: skip


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("nobody is asked for")


def enter(request: HttpRequest) -> HttpResponse:
    try:
        sign_in(request, **{name: value for name, value in request.POST.dict().items() if name != "next"})
    except NovellaError as error:
        return JsonResponse({"error": error.message, "code": error.code}, status=401)
    response = who(request)
    response["Location"] = safe_next(request)
    return response


def leave(request: HttpRequest) -> HttpResponse:
    sign_out(request)
    return who(request)


def switch(request: HttpRequest, project_id: str) -> HttpResponse:
    try:
        switch_project(request, project_id)
    except NovellaError as error:
        return JsonResponse({"error": error.message, "code": error.code}, status=403)
    return who(request)


urlpatterns = [
    path("who", who),
    path("plain", plain),
    path("in", enter),
    path("out", leave),
    path("switch/<project_id>", switch),
    path("admin/", admin.site.urls),
    path("", include("portal.dashboard.urls")),  # pages that the admin has links to
]
