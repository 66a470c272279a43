"""A resource of the Block Storage API."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from portal.api.frame import resource as frame
from portal.api.frame.attributes import Attribute
from portal.api.frame.kinds import Checked
from portal.api.volume.dialect.actions import Actions
from portal.api.volume.dialect.listing import Lists


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource, with the filters and sort keys of its lists."""

    lists: Lists
    actions: Actions | None = None
    """Those of ``POST /{resources}/{id}/action``."""


class Links(Attribute):
    """The links of an object."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: view.links(f"{view.resource.path}/{row.pk}")


LINKS = Links("links", Checked({"type": "array"}))
