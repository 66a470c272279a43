"""Trees of projects, each read in one query, and the projects and domains that a user may enter."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Q, QuerySet, prefetch_related_objects

from provisioning.common.context import RequestContext
from provisioning.identity.models import Domain, Project, RoleAssignment
from provisioning.identity.selectors.entries import domains_of, projects_of, roles_on_system


def parents_of(project: Project) -> list[Project]:
    """Return the projects above, the nearest first, without the domain."""
    result: list[Project] = []
    row = Project.objects.select_related("parent__parent__parent__parent").filter(id=project.id).first()
    parent = row.parent if row else None
    while parent is not None:
        result.append(parent)
        parent = parent.parent
    return result


def subtree_of(project: Project) -> list[Project]:
    """Return the projects below, level by level and each level by name, with one query for each level."""
    result: list[Project] = []
    level = [project]
    while level:
        below = Project.objects.filter(parent__in=[each.id for each in level])
        level = list(below.prefetch_related("tags").order_by("name", "id"))
        result += level
    return result


Branch = tuple[uuid.UUID, uuid.UUID | None, str]
"""Project, its parent project, its domain."""


@dataclass(frozen=True, slots=True)
class ProjectTree:
    """Projects with their parents and children."""

    parents: dict[uuid.UUID, tuple[uuid.UUID | None, str]]
    children: dict[uuid.UUID, list[uuid.UUID]]
    in_domain: dict[str, list[uuid.UUID]]

    @classmethod
    def of_domain_of(cls, project_id: uuid.UUID) -> ProjectTree:
        """Read the projects of this project's domain; trees do not extend into other domains."""
        return cls._read(Project.objects.filter(domain__in=Project.objects.filter(id=project_id).values("domain")))

    @classmethod
    def of_domain(cls, domain_id: str) -> ProjectTree:
        """Read the projects of a domain."""
        return cls._read(Project.objects.filter(domain=domain_id))

    @classmethod
    def all(cls) -> ProjectTree:
        """Read the projects of all domains in which an inherited role is assigned."""
        inherited = RoleAssignment.objects.filter(inherited=True)
        return cls._read(
            Project.objects.filter(
                Q(domain__in=inherited.filter(domain__isnull=False).values("domain"))
                | Q(domain__in=inherited.filter(project__isnull=False).values("project__domain"))
            )
        )

    @classmethod
    def _read(cls, projects: QuerySet[Project]) -> ProjectTree:
        tree = cls({}, {}, {})
        rows: list[Branch] = list(projects.order_by("name", "id").values_list("id", "parent_id", "domain_id"))
        for key, parent, domain in rows:
            tree.parents[key] = (parent, domain)
            tree.in_domain.setdefault(domain, []).append(key)
            if parent is not None:
                tree.children.setdefault(parent, []).append(key)
        return tree

    def below(self, project_id: uuid.UUID) -> set[uuid.UUID]:
        result, new = {project_id}, [project_id]
        while new:
            new = [child for each in new for child in self.children.get(each, ()) if child not in result]
            result.update(new)
        return result

    def above(self, projects: set[uuid.UUID]) -> set[uuid.UUID]:
        result: set[uuid.UUID] = set()
        for each in projects:
            parent = self.parents.get(each, (None, ""))[0]
            while parent is not None and parent not in result:
                result.add(parent)
                parent = self.parents.get(parent, (None, ""))[0]
        return result

    def domains(self, projects: set[uuid.UUID]) -> set[str]:
        return {self.parents[each][1] for each in projects if each in self.parents}


def projects_open_to(context: RequestContext) -> list[Project]:
    """Return the projects with their tags, by name; for an application credential or trust, only its own project."""
    result: list[Project] = []
    if context.is_delegated and context.project_id is not None:
        result = list(Project.objects.filter(id=context.project_id).select_related("domain"))
    elif context.user_id is not None and not context.is_delegated:
        result = projects_of(context.user_id)
    prefetch_related_objects(result, "tags")
    return result


def domains_open_to(context: RequestContext) -> list[Domain]:
    """Return the domains, by name."""
    if context.user_id is None or context.is_delegated:
        return []
    return domains_of(context.user_id)


def may_enter_system(context: RequestContext) -> bool:
    """Return whether a system token can be issued."""
    if context.user_id is None or context.is_delegated:
        return False
    return bool(roles_on_system(context.user_id))
