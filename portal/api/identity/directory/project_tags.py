"""``/v3/projects/{id}/tags``."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.identity import fragments
from portal.api.identity.directory.base import RecordView
from portal.api.identity.directory.kinds import TAGS
from portal.api.identity.directory.projects import PROJECT
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project
from provisioning.identity.services.projects import add_tag, remove_tag, set_tags


class ProjectTagsView(RecordView):
    """All tags of a project."""

    resource = PROJECT
    rules = {
        "GET": "identity:list_project_tags",
        "PUT": "identity:update_project_tags",
        "DELETE": "identity:delete_project_tags",
    }
    schemas: ClassVar[Schemas] = {
        "PUT": {
            "type": "object",
            "properties": {"tags": TAGS.schema},
            "required": ["tags"],
            "additionalProperties": False,
        }
    }

    def get(self, request: Request, identity: str) -> Response:
        return Response(_shape(request, self.record))

    def put(self, request: Request, identity: str) -> Response:
        """Replace the tags of the project."""
        project = self.record
        set_tags(project, self.checked_body()["tags"])
        return Response(_shape(request, project))

    def delete(self, request: Request, identity: str) -> Response:
        """Remove all tags."""
        set_tags(self.record, [])
        return Response(status=204)


class ProjectTagView(RecordView):
    """One tag of a project."""

    resource = PROJECT
    rules = {
        "GET": "identity:get_project_tag",
        "PUT": "identity:create_project_tag",
        "DELETE": "identity:delete_project_tag",
    }

    def get(self, request: Request, identity: str, tag: str) -> Response:
        """Answer 204 if the project has the tag."""
        if tag not in {each.name for each in self.record.tags.all()}:
            raise NotFoundError(f"Could not find project tag: {tag[:64]}.")
        return Response(status=204)

    def put(self, request: Request, identity: str, tag: str) -> Response:
        """Add a tag to the project."""
        add_tag(self.record, tag)
        path = f"/projects/{self.record.id.hex}/tags/{tag}"
        return Response(status=201, headers={"Location": fragments.self_link(request, path)["self"]})

    def delete(self, request: Request, identity: str, tag: str) -> Response:
        """Remove the tag."""
        remove_tag(self.record, tag)
        return Response(status=204)


def _shape(request: Request, project: Project) -> fragments.Shape:
    links = {"next": None, "previous": None, **fragments.self_link(request, f"/projects/{project.id.hex}/tags")}
    return {"tags": sorted(each.name for each in project.tags.all()), "links": links}
