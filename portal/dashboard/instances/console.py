"""The console log as a file."""

import uuid

from django.http import HttpRequest, HttpResponse

from portal.dashboard.instances.page import InstancePage
from provisioning.compute import selectors as compute
from provisioning.compute.services.console import console_output


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
