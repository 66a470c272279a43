"""Parents and subtree of a project, as lists or nested ids."""

import uuid
from collections.abc import Callable
from typing import Any

from portal.api.identity.dialect.bodies import Shape, flag, parameters
from portal.api.identity.directory.base import RecordDetailView
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import Project
from provisioning.identity.selectors.trees import parents_of, subtree_of

KNOWN = parameters(
    {f"{name}_as_{form}": {"type": "string"} for name in ("parents", "subtree") for form in ("list", "ids")}
)
"""The parameters that ``around`` reads."""
Sees = Callable[[list[Project]], list[Project]]


def around(view: RecordDetailView, project: Project, sees: Sees) -> Shape:
    """Return ``parents`` and ``subtree`` as the query requests them: ``…_as_list`` or ``…_as_ids``.

    Lists are filtered by ``sees``. Raises InvalidInputError if the query requests parents, or the subtree, in both
    forms.
    """
    request = view.request
    requested = {
        name for name in ("parents", "subtree") for form in ("list", "ids") if flag(request, f"{name}_as_{form}")
    }
    shape: Shape = {}
    for name in sorted(requested):
        as_list, as_ids = (flag(request, f"{name}_as_{form}") for form in ("list", "ids"))
        if as_list and as_ids:
            raise InvalidInputError(f"Use either {name}_as_list or {name}_as_ids, not both.", field=f"{name}_as_ids")
        found = parents_of(project) if name == "parents" else subtree_of(project)
        if as_list:
            shape[name] = [{"project": each} for each in view.shapes(sees(found))]
        else:
            shape[name] = _above(project, found) if name == "parents" else _below(project, found)
    return shape


def _above(project: Project, parents: list[Project]) -> dict[str, Any]:
    """Return the ids of the parents, nested from the nearest to the domain, whose value is None."""
    nested: dict[str, Any] = {project.domain_id: None}
    for parent in reversed(parents):
        nested = {parent.id.hex: nested}
    return nested


def _below(project: Project, subtree: list[Project]) -> dict[str, Any] | None:
    """Return the ids of the children, each with its own children nested; None for a project without children."""
    children: dict[uuid.UUID | None, list[Project]] = {}
    for each in subtree:
        children.setdefault(each.parent_id, []).append(each)

    def nested(key: uuid.UUID) -> dict[str, Any] | None:
        return {child.id.hex: nested(child.id) for child in children.get(key, [])} or None

    return nested(project.id)
