"""Opening a server's console, and the window that shows it."""

import uuid
from typing import cast
from urllib.parse import parse_qs, urlsplit

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from portal.common.http.security_headers import allow_own_frames
from portal.common.sign_in import TOKEN
from portal.common.websockets.console_urls import SOCKET, page_path
from portal.dashboard.frame.pages import PageRequest
from portal.dashboard.instances.page import InstancePage
from portal.dashboard.words.plain import plain
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.compute.services.remote_consoles import EXCLUSIVE, RULE, TAKE_OVER, create_console, find_token
from provisioning.identity import policy
from provisioning.identity.tokens.tokens import read

TYPES = {"vnc": "novnc", "serial": "serial"}
KEYS = {
    "vnc": (
        ("Ctrl-Alt-Delete", "Ctrl-Alt-Del"),
        *((f"Ctrl-Alt-F{number}", f"Ctrl-Alt-F{number}") for number in range(1, 8)),
        ("Alt-Tab", "Alt-Tab"),
        ("Alt-F4", "Alt-F4"),
        ("Escape", "Esc"),
        ("Tab", "Tab"),
        ("Alt-SysRq-S", "SysRq S: sync disks"),
        ("Alt-SysRq-U", "SysRq U: remount read-only"),
        ("Alt-SysRq-B", "SysRq B: reboot immediately"),
    ),
    "serial": (
        ("Ctrl-C", "Ctrl-C: interrupt"),
        ("Ctrl-D", "Ctrl-D: end of input"),
        ("Ctrl-Z", "Ctrl-Z: suspend"),
        ("Ctrl-\\", "Ctrl-\\: quit"),
        ("Ctrl-L", "Ctrl-L: redraw"),
        ("Escape", "Esc"),
        ("Tab", "Tab"),
    ),
}
"""Keys in the menu of each console, as its script presses them, and their labels."""


class OpenConsole(InstancePage):
    """Creates a console, whose address works once. Redirects to its window, or returns the socket's address to a
    console window that is already open.
    """

    rule = RULE

    def post(self, request: HttpRequest, instance_id: uuid.UUID, protocol: str) -> HttpResponse:
        """Create the console and redirect to it."""
        if protocol not in TYPES:
            raise Http404
        asked_with = read(str(request.session.get(TOKEN, "")))
        takes_over = "take_over" in request.POST
        made = create_console(self.context, instance_id, protocol, TYPES[protocol], asked_with, takes_over=takes_over)
        if not request.accepts("text/html"):
            return JsonResponse({"socket": f"{SOCKET}?token={made.token}"}, headers={"Cache-Control": "no-store"})
        return HttpResponseRedirect(page_path(protocol, made.token), status=303)

    def refused(self, error: NovellaError) -> HttpResponse:
        """Return the error as JSON to the console window."""
        if self.request.accepts("text/html"):
            return super().refused(error)
        return JsonResponse({"message": plain(error.message)})

    def back(self) -> str:
        """Return the page of the instance, on which errors are shown."""
        return reverse("dashboard:instance_console", args=[self.kwargs["instance_id"]])


class ConsoleWindow(View):
    """The console window; its address authorizes access, without a session.

    ``path`` is the socket with the token, which opening the page does not use up; ``instance`` is a server whose
    console was shown in this window before; with ``embedded`` the window is a frame of the server's page.
    """

    protocol = ""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the window; without a valid token show an error, and offer another console to callers who may open
        one.
        """
        token = _token_in(request.GET.get("path", ""))
        context = cast("PageRequest", request).context
        instance: Instance | None = None
        status = 200
        if token:
            try:
                row = find_token(token)
            except NotFoundError:
                token, status = "", 404
            else:
                token, instance = (token, row.instance) if row.protocol == self.protocol else ("", None)
                status = 200 if token else 404
        own = _own(context, str(instance.id) if instance else request.GET.get("instance", ""))
        if own is not None and not request.GET.get("path"):
            status = 200  # the window requests another console automatically
        response = render(
            request,
            "dashboard/instances/console_page.html",
            {
                "protocol": self.protocol,
                "embedded": "embedded" in request.GET,
                "keys": KEYS[self.protocol],
                "instance": instance or own,
                "socket": f"{SOCKET}?token={token}" if token else "",
                "ask": own.id if own else "",
                "takes_over": own is not None and self.protocol in EXCLUSIVE and _takes_over(context, own),
                "reads_log": own is not None and _reads_log(context),
            },
            status=status,
        )
        response.headers["Referrer-Policy"] = "strict-origin"  # its form sends an origin
        response.headers["Cache-Control"] = "no-store"
        allow_own_frames(request, response)
        return response


def _takes_over(context: RequestContext | None, instance: Instance) -> bool:
    target = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
    return context is not None and policy.allows(context, TAKE_OVER, target)


def _reads_log(context: RequestContext | None) -> bool:
    return context is not None and policy.allows(context, "os_compute_api:os-console-output")


def _token_in(path: str) -> str:
    """Return the token in ``ws/console?token=…``."""
    try:
        return parse_qs(urlsplit(path).query, max_num_fields=5).get("token", [""])[0]
    except ValueError:
        return ""


def _own(context: RequestContext | None, instance_id: str) -> Instance | None:
    """Return the server if the signed-in user may open its console."""
    if context is None or context.project_id is None or not policy.allows(context, RULE):
        return None
    try:
        return compute.instance_for(context, instance_id)
    except NotFoundError:
        return None
