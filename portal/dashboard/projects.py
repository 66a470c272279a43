"""The project switch: the projects that one may work in, and the pages on which one stays when changing."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from portal.dashboard import navigation
from provisioning.common.context import RequestContext
from provisioning.identity.models import Project

FEW = 8
"""So many projects are simply listed; more are searched."""
SHOWN = 50
"""At most so many are found at once."""
OWN_PAGES = (
    "dashboard:settings",
    "dashboard:settings_password",
    "dashboard:settings_sessions",
)
"""Pages of the person rather than of a project."""


@dataclass(frozen=True, slots=True)
class ProjectSwitch:
    """What the switch offers: ``found`` of ``count`` projects; domains are named when there are several."""

    current: uuid.UUID | None
    domain: str
    found: Sequence[Project]
    count: int
    several_domains: bool
    place: str
    """The page to stay on."""

    @property
    def searches(self) -> bool:
        """Whether there are so many that a search is offered."""
        return self.count > FEW

    @property
    def left_out(self) -> int:
        """How many match but are not shown."""
        return max(self.count - len(self.found), 0)


def switch_for(
    context: RequestContext, projects: Sequence[Project], place: str, *, text: str | None = None
) -> ProjectSwitch:
    """Return the switch; with ``text`` the projects whose name or domain has it, else all when they are few."""
    several = len({project.domain_id for project in projects}) > 1
    current = next((project for project in projects if project.id == context.project_id), None)
    matching: Sequence[Project] = projects if text is not None or len(projects) <= FEW else ()
    if text:
        words = text.casefold().split()
        matching = [project for project in projects if all(word in _written(project) for word in words)]
    return ProjectSwitch(
        current=context.project_id,
        domain=current.domain.name if current and several else "",
        found=matching[:SHOWN],
        count=len(matching) if text is not None else len(projects),
        several_domains=several,
        place=place,
    )


def place_of(entries: Sequence[navigation.Entry], section: str, own: str = "") -> str:
    """Return the address of the page on which somebody in this section stays: its list, or ``own`` (a URL name)."""
    entry = next((entry for entry in entries if entry.section == section), None)
    return reverse(own or (entry.url_name if entry else "dashboard:overview"))


def place_in(context: RequestContext, wanted: str) -> str:
    """Return ``wanted`` when it is a page that this person has in this project, else the overview."""
    names = [*OWN_PAGES, *(entry.url_name for entry in navigation.entries_for(context))]
    return wanted if wanted in {reverse(name) for name in names} else reverse("dashboard:overview")


def _written(project: Project) -> str:
    return f"{project.name} {project.domain.name}".casefold()
