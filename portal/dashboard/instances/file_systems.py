"""The mounted file systems of a guest, for its tab of disks."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.dashboard.frame.pages import Page
from portal.dashboard.words.plain import plain
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.services.file_systems import RULE, file_systems


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
