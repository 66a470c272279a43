"""The Tasks API, which only operators may use, as in Glance, and imports: background work on images."""

import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Call, Json, Schema, Values, endpoint, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images.queries import LIST_PAGES, ONE_KEY
from portal.api.image.images.views import moment
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.images import selectors, services
from provisioning.images.models import ImageTask
from provisioning.images.selectors import tasks

TYPES = ("import", "api_image_import")
TASK: Schema = {
    "type": "object",
    "properties": {
        "type": {"enum": ["import"]},
        "input": {
            "type": "object",
            "properties": {
                "import_from": {"type": "string", "maxLength": 2048},
                "import_from_format": {"type": "string", "maxLength": 20},
                "image_properties": {"type": "object"},
            },
            "required": ["import_from", "import_from_format", "image_properties"],
        },
    },
    "required": ["type", "input"],
}
_one = {"type": "array", "items": {"type": "string", "maxLength": 255}}
TASK_QUERY: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("limit", "marker", "owner"), _one),
        "type": {"type": "array", "items": {"enum": list(TYPES)}},
        "status": {"type": "array", "items": {"enum": list(ImageTask.Status.values)}},
        "sort_key": {"type": "array", "items": {"enum": sorted(tasks.SORT_KEYS)}},
        "sort_dir": {"type": "array", "items": {"enum": ["asc", "desc"]}},
    },
}


class Tasks(ImageView):
    """``/image/v2/tasks``."""

    rules = {"GET": "tasks_api_access", "POST": "tasks_api_access"}
    schemas = {"POST": TASK}
    queries = {"GET": TASK_QUERY}

    def get(self, request: Request) -> Json:
        """List tasks without their input and result."""
        query: Values = {name: values[-1] for name, values in self.checked_query().items() if values}
        page = LIST_PAGES.read(request)
        sort = ONE_KEY.read(request.query_params, {name: name for name in tasks.SORT_KEYS})
        if "owner" in query:
            query["project_id"] = read_id(query["owner"]) or NOBODY
        rows = tasks.tasks_for(self.context, query, limit=page.limit, marker=page.marker, sort=sort)
        first = request.query_params.copy()
        first.pop("marker", None)
        following = LIST_PAGES.next_query(request, page, [row.id for row in rows])
        return {
            "tasks": [stub(row) for row in rows],
            "first": f"/v2/tasks?{first.urlencode()}" if first else "/v2/tasks",
            "schema": "/v2/schemas/tasks",
            **({"next": f"/v2/tasks?{following}"} if following else {}),
        }

    def post(self, request: Request) -> Response:
        """Create an image from a URL; the older form of an import."""
        values = self.checked_body()["input"]
        properties = values["image_properties"]
        if not all(isinstance(value, str) for value in properties.values()):
            raise InvalidInputError("image_properties must be text.", field="image_properties")
        task = services.import_new(self.context, values)
        response = Response(shape(task), status=201)
        response["Location"] = f"{endpoint(request, 'image')}/v2/tasks/{task.id}"
        return response


def stub(row: ImageTask) -> Json:
    return {
        "id": str(row.id),
        "type": row.type,
        "status": row.status,
        "owner": row.project_id.hex,
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
        **({"expires_at": moment(row.expires_at)} if row.expires_at else {}),
        "self": f"/v2/tasks/{row.id}",
        "schema": "/v2/schemas/task",
    }


def shape(row: ImageTask) -> Json:
    known = {name: value for name, value in _references(row).items() if value}
    return {**stub(row), **known, "input": row.input, "result": row.result, "message": row.message}


def shape_of_image(row: ImageTask) -> Json:
    """Return a task as ``/images/{id}/tasks`` shows it: other names than in ``/tasks``, and times with microseconds."""
    references = _references(row)
    return {
        "id": str(row.id),
        "type": row.type,
        "status": row.status,
        "owner": row.project_id.hex,
        "expires_at": _precise(row.expires_at),
        "created_at": _precise(row.created_at),
        "updated_at": _precise(row.updated_at),
        "deleted_at": None,
        "deleted": False,
        "input": row.input,
        "result": row.result,
        "message": row.message,
        **references,
        "request-id": references["request_id"],
        "user": references["user_id"],
    }


def _references(row: ImageTask) -> Json:
    return {
        "image_id": str(row.image_id) if row.image_id else "",
        "request_id": row.request_id,
        "user_id": row.user_id.hex if row.user_id else "",
    }


def _precise(value: datetime.datetime | None) -> str | None:
    return None if value is None else value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def _of_image(context: RequestContext, image_id: str) -> list[ImageTask]:
    return [*tasks.tasks_of_image(context, selectors.image_for(context, image_id))]


PARTS = parts(
    ImageView,
    "",
    {
        "GET tasks/{task_id}": Call(tasks.task_for, "tasks_api_access", shape=lambda view, row: shape(row)),
        "GET images/{image_id}/tasks": Call(
            _of_image,
            "get_image",
            "List running and finished tasks of an image.",
            name="tasks",
            shape=lambda view, rows: [*map(shape_of_image, rows)],
        ),
    },
)


IMPORT: Schema = {
    "type": "object",
    "properties": {
        "method": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 80},
                "uri": {"type": "string", "maxLength": 2048},
            },
            "required": ["name"],
        },
        "stores": {"type": "array", "items": {"type": "string", "maxLength": 255}, "minItems": 1, "maxItems": 100},
        "all_stores": {"type": "boolean"},
        "all_stores_must_succeed": {"type": "boolean"},
    },
    "required": ["method"],
}


class ImageImport(ImageView):
    """``/image/v2/images/{id}/import``."""

    rules = {"POST": services.Import.rule}
    schemas = {"POST": IMPORT}

    def post(self, request: Request, image_id: str) -> Response:
        """Start the import. The image service has one store; ``stores`` and the older header ``X-Image-Meta-Store`` may
        name only this store.
        """
        body = self.checked_body()
        stores = body.get("stores")
        if stores is not None and body.get("all_stores"):
            raise InvalidInputError("'all_stores' and 'stores' cannot be used together.", field="stores")
        if stores is None and "X-Image-Meta-Store" in request.headers:
            stores = [request.headers["X-Image-Meta-Store"]]
        method = body["method"]
        import_request = services.ImportRequest(method["name"], uri=method.get("uri"), stores=stores, body=_known(body))
        services.Import.begin(self.context, image_id, import_request)
        return Response(status=202)


def _known(body: Json) -> Json:
    """Return the supported members of a request, for the task's record."""
    method = {name: body["method"][name] for name in ("name", "uri") if name in body["method"]}
    return {
        "method": method,
        **{name: body[name] for name in IMPORT["properties"] if name in body and name != "method"},
    }
