"""``/v3/projects/{id}/tags``."""

from typing import Any

from rest_framework.response import Response

from portal.api.frame.parts import Call, Entries, parts
from portal.api.frame.schemas import inner
from portal.api.identity.dialect import bodies, patterns
from portal.api.identity.directory.base import TAGS, RecordView
from portal.api.identity.directory.projects import PROJECT
from provisioning.identity.models import Project
from provisioning.identity.services.projects import add_tag, remove_tag, set_tags


def _shown(view: Any, made: object) -> bodies.Shape:
    """Return the tags of the project in the path."""
    links = {"next": None, "previous": None, **bodies.self_link(view.request, bodies.own_path(view.request))}
    return {"tags": sorted(each.name for each in view.record.tags.all()), "links": links}


def _added(view: Any, made: None) -> Response:
    """Answer with the address of the tag."""
    path = f"{PROJECT.address(view.record)}/tags/{view.kwargs['tag']}"
    return Response(status=201, headers={"Location": bodies.self_link(view.request, path)["self"]})


def _project(project: Project, *tag: str) -> Project:
    return project


_TAGS = Entries(
    name="tags",
    find=_project,
    values=lambda view, project: {each.name for each in project.tags.all()},
    missing="Could not find project tag: {key:.64}.",
)
ROUTES = patterns(
    parts(
        RecordView,
        "projects/{project_id}/tags",
        {
            "GET": Call(_project, "identity:list_project_tags", shape=_shown),
            "PUT": Call(
                set_tags,
                "identity:update_project_tags",
                "Replace the tags of the project.",
                body=inner({"tags": TAGS.schema}, ("tags",)),
                shape=_shown,
            ),
            "DELETE": Call(lambda project: set_tags(project, []), "identity:delete_project_tags", "Remove all tags."),
            "GET /{tag}": _TAGS.check("identity:get_project_tag", "Answer 204 if the project has the tag."),
            "PUT /{tag}": Call(
                add_tag, "identity:create_project_tag", "Add a tag to the project.", shape=_added, status=201
            ),
            "DELETE /{tag}": Call(remove_tag, "identity:delete_project_tag", "Remove the tag."),
        },
        resource=PROJECT,
    )
)
