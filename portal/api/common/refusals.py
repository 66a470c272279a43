"""Views declared as a table: operations that are refused or return an empty list."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from provisioning.common.errors import NovellaError

LONGEST = 64
"""Maximum number of characters of a path parameter that a response repeats."""

View = TypeVar("View", bound=ServiceView)
Answer = Callable[[Request, Mapping[str, str]], Response]
"""Called with the request and its path parameters."""


class Operation(NamedTuple):
    """The response of one method, after the policy rule has allowed the request."""

    rule: str
    answer: Answer


def refuse(error: type[NovellaError], message: str) -> Answer:
    """Return a function that raises the error; each placeholder in the message, such as ``{image_id}``, is replaced by
    the path parameter of that name.
    """

    def answer(request: Request, named: Mapping[str, str]) -> Response:
        raise error(message.format_map({name: text[:LONGEST] for name, text in named.items()}))

    return answer


def answering(base: type[View], operations: Mapping[str, Operation], **members: Any) -> type[View]:
    """Return a view class that answers the methods of the table (``GET`` …) and inherits all other methods from
    ``base``.
    """

    queries: Schemas = members.get("queries", base.queries)

    def handler(method: str, operation: Operation) -> Callable[..., Response]:
        def handle(self: ServiceView, request: Request, **named: str) -> Response:
            if method in queries:
                self.checked_query()
            return operation.answer(request, named)

        return handle

    members |= {method.lower(): handler(method, operation) for method, operation in operations.items()}
    members["rules"] = base.rules | {method: operation.rule for method, operation in operations.items()}
    made = type(base.__name__, (base,), {"__module__": __name__, "__doc__": base.__doc__} | members)
    return cast("type[View]", made)
