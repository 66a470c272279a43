"""Projects above and below a project."""

from provisioning.identity.models import Project


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
