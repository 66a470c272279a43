"""The frame of EC2's actions: their declaration, the call, the errors of requests, the ids of resources and tags."""

from portal.api.ec2.frame import errors, names, tags
from portal.api.ec2.frame.calls import ALWAYS_TAKEN, Action, Arguments, Call, Handler, Shape, action
from portal.api.ec2.frame.errors import Ec2Error

__all__ = [
    "ALWAYS_TAKEN",
    "Action",
    "Arguments",
    "Call",
    "Ec2Error",
    "Handler",
    "Shape",
    "action",
    "errors",
    "names",
    "tags",
]
