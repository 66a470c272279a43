"""Projects above and below a project."""

from __future__ import annotations

from provisioning.identity.models import Project


def parents_of(project: Project) -> list[Project]:
    """Return the projects above, the nearest first; without the domain."""
    found: list[Project] = []
    above = project.parent_id
    while above is not None:
        # Four levels come with one query, and no tree is deeper.
        parent = Project.objects.select_related("parent__parent__parent").get(id=above)
        chain = [parent]
        while chain[-1].parent_id is not None and "parent" in chain[-1]._state.fields_cache:
            chain.append(chain[-1].parent)
        found += chain
        above = chain[-1].parent_id
    return found


def subtree_of(project: Project) -> list[Project]:
    """Return the projects below, level by level and each level by name: one query for a level."""
    found: list[Project] = []
    level = [project]
    while level:
        below = Project.objects.filter(parent__in=[each.id for each in level])
        level = list(below.prefetch_related("tags").order_by("name", "id"))
        found += level
    return found
