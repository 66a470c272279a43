"""The scope switch: the projects, domains and system that a user may enter, and the pages that are shown again after a
change.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from portal.dashboard.frame import navigation
from provisioning.common.context import RequestContext
from provisioning.identity.models import Domain, Project
from provisioning.identity.selectors.entries import Entries

FEW = 8
"""Maximum number of projects that the switch lists; if there are more, it has a search instead."""
SHOWN = 50
"""Maximum number of search results."""
OWN_PAGES = (
    "dashboard:settings",
    "dashboard:settings_password",
    "dashboard:settings_sessions",
)
"""Pages about the user instead of a project."""


@dataclass(frozen=True, slots=True)
class ProjectSwitch:
    """The choices of the switch: ``found`` of ``count`` projects, ``domains`` and the ``system``.

    Domain names of projects are shown if there are several.
    """

    kind: str
    """The current scope: ``Project``, ``Domain`` or ``System``."""
    name: str
    current: uuid.UUID | str | None
    domain: str
    found: Sequence[Project]
    count: int
    domains: Sequence[Domain]
    system: bool
    several_domains: bool
    place: str
    """The page to show after a change of the scope."""

    @property
    def choices(self) -> int:
        """The number of scopes."""
        return self.count + len(self.domains) + self.system

    @property
    def searches(self) -> bool:
        """Whether there are enough projects to offer a search."""
        return self.count > FEW

    @property
    def left_out(self) -> int:
        """The number of matches that are not shown."""
        return max(self.count - len(self.found), 0)


def switch_for(context: RequestContext, entries: Entries, place: str, *, text: str | None = None) -> ProjectSwitch:
    """Return the switch. With ``text`` it has the projects whose name or domain contains the text, otherwise all
    projects if they are few.
    """
    projects = entries.projects
    several = len({project.domain_id for project in projects}) > 1
    current = next((project for project in projects if project.id == context.project_id), None)
    matching: Sequence[Project] = projects if text is not None or len(projects) <= FEW else ()
    if text:
        words = text.casefold().split()
        matching = [project for project in projects if all(word in _written(project) for word in words)]
    scope = navigation.scope_of(context)
    own = next((domain.name for domain in entries.domains if domain.id == context.domain_id), context.domain_id)
    return ProjectSwitch(
        kind=scope.capitalize(),
        name={"project": context.project_name, "domain": own or "", "system": "The whole cloud"}[scope],
        current=context.project_id or context.domain_id,
        domain=current.domain.name if current and several else "",
        found=matching[:SHOWN],
        count=len(matching) if text is not None else len(projects),
        domains=entries.domains,
        system=entries.system,
        several_domains=several,
        place=place,
    )


def place_of(entries: Sequence[navigation.Entry], section: str, own: str = "") -> str:
    """Return the address to show after a change of the project: the section's list, or ``own`` (a URL name)."""
    entry = next((entry for entry in entries if entry.section == section), None)
    return reverse(own or (entry.url_name if entry else "dashboard:overview"))


def place_in(context: RequestContext, place: str) -> str:
    """Return ``place`` if the user may open this page with the token, otherwise the start page."""
    names = [*OWN_PAGES, *(entry.url_name for entry in navigation.entries_for(context))]
    home = reverse(navigation.HOME_OF[navigation.scope_of(context)])
    return place if place in {reverse(name) for name in names} else home


def _written(project: Project) -> str:
    return f"{project.name} {project.domain.name}".casefold()
