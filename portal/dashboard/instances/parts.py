"""Parts of an instance's page with addresses of their own: the console log, the graphs and the file systems."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from django.http import HttpRequest, HttpResponse

from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.graphs import parts
from portal.dashboard.instances.detail.tabs import GRAPHS
from portal.dashboard.instances.page import InstancePage
from portal.dashboard.instances.views import InstanceTab
from portal.dashboard.words.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.services.console import console_output
from provisioning.compute.services.file_systems import RULE, file_systems
from provisioning.identity import policy


class ConsoleLog(InstancePage):
    """The console log of the guest as a download."""

    rule = "os_compute_api:os-console-output"

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        """Send the whole log as plain text, which browsers do not interpret."""
        instance = compute.instance_for(self.context, instance_id)
        text = console_output(self.context, instance.id)
        return HttpResponse(
            text,
            content_type="text/plain; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="{instance.hostname}-console.log"',
                "X-Content-Type-Options": "nosniff",
            },
        )


class InstanceGraphs(InstanceTab):
    """The whole page, or only its graphs for the script."""

    def get(self, request: HttpRequest, instance_id: uuid.UUID, span: str = "") -> HttpResponse:
        chosen = parts.span_named(span)
        self.tab = replace(GRAPHS, read=lambda context, instance: parts.server_graphs(context, instance, chosen))
        if not cast("PageRequest", request).htmx:
            return super().get(request, instance_id)
        instance = compute.instance_for(self.context, instance_id)
        if not self.tab.seen_by(self.context, instance):
            policy.enforce(self.context, self.tab.rules[0])
        return self.part(parts.TEMPLATE, self.tab.read(self.context, instance))


class FileSystemsPart(Page):
    """The file systems as the guest agent reports them, for the open page; the reason if they are unavailable."""

    section = "instances"
    rule = RULE

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the policy target of the server, which must be in this project. Raises NotFoundError."""
        instance = compute.instance_for(self.context, kwargs["instance_id"])
        return {"project_id": instance.project_id, "user_id": instance.user_id}

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        try:
            values: dict[str, Any] = {"found": file_systems(self.context, instance_id)}
        except NovellaError as error:
            values = {"problem": plain(error.message)}
        return self.part("dashboard/instances/_file_systems.html", values)
