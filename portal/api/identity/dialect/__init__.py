"""The dialect of the Identity API: Keystone's bodies with additional attributes, links, and its kinds of lists."""

from portal.api.frame.resource import Checked, Operation, Values
from portal.api.identity.dialect.lists import InMemory, Paged
from portal.api.identity.dialect.resource import (
    IDENTITY,
    Attribute,
    DetailView,
    ListView,
    Resource,
    ResourceView,
    listed,
    patterns,
    routes,
)

__all__ = [
    "IDENTITY",
    "Attribute",
    "Checked",
    "DetailView",
    "InMemory",
    "ListView",
    "Operation",
    "Paged",
    "Resource",
    "ResourceView",
    "Values",
    "listed",
    "patterns",
    "routes",
]
