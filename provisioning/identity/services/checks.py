"""Validation of names, descriptions, tags and additional fields, and writes to rows that other requests may change
concurrently.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import orjson
from django.db import IntegrityError, transaction
from django.db.models import Model

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.json_text import encoded
from provisioning.common.values.text import has_control_characters
from provisioning.identity.models import SHORT, Domain, Group, Project, User
from provisioning.identity.roles.safeguards import keeping_an_administrator

LONGEST_TEXT = 65_535
"""Maximum length of a description."""
MOST_EXTRA, LONGEST_EXTRA_NAME, LARGEST_EXTRA = 64, 255, 16_384
"""Additional fields of one record: maximum number, length of a name, and size of all as JSON in bytes."""
MOST_TAGS, LONGEST_TAG = 80, 255


def check_name(name: str, longest: int, field: str = "name") -> str:
    """Return the name.  Raises InvalidInputError if it is blank, too long or has a control character."""
    if not name.strip():
        raise InvalidInputError(f"The {field} must not be blank.", field=field)
    if has_control_characters(name):
        raise InvalidInputError(f"The {field} must not contain control characters or line breaks.", field=field)
    if len(name) > longest:
        raise InvalidInputError(f"The {field} must have at most {longest} characters.", field=field)
    return check_text(name, field)


def check_text(text: str, field: str = "description", longest: int = LONGEST_TEXT) -> str:
    """Return the text.  Raises InvalidInputError if it is too long or has a NUL character."""
    if "\0" in text:
        raise InvalidInputError(f"The {field} must not contain a NUL character.", field=field)
    if len(text) > longest:
        raise InvalidInputError(f"The {field} must have at most {longest} characters.", field=field)
    return text


def check_tags(names: Collection[str]) -> list[str]:
    """Return the tags without duplicates.  Raises InvalidInputError if one is invalid or there are too many."""
    result = list(dict.fromkeys(names))
    if len(result) > MOST_TAGS:
        raise InvalidInputError(f"A project can have at most {MOST_TAGS} tags.", field="tags")
    for name in result:
        check_name(name, LONGEST_TAG, "tag")
        if "," in name or "/" in name:
            raise InvalidInputError("A tag must not contain a comma or a slash.", field="tag")
    return result


def merged(known: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the additional fields after a change, in which None removes a field.

    Raises InvalidInputError if there are too many or they are too large.
    """
    result = {name: value for name, value in {**known, **(changes or {})}.items() if value is not None}
    if len(result) > MOST_EXTRA:
        raise InvalidInputError(f"At most {MOST_EXTRA} additional fields are allowed.", field=next(reversed(result)))
    for name in result:
        check_name(name, LONGEST_EXTRA_NAME, "name of an additional field")
    try:
        text = encoded(result)
    except orjson.JSONEncodeError as error:
        raise InvalidInputError("The additional fields are not JSON.", field="extra") from error
    if len(text) > LARGEST_EXTRA or rb"\u0000" in text:
        raise InvalidInputError(
            f"The additional fields must be at most {LARGEST_EXTRA} bytes of JSON without NUL characters.",
            field=next(reversed(result)),
        )
    kept: dict[str, Any] = orjson.loads(text)
    return kept


def current(record: Model, column: str) -> dict[str, Any]:
    """Return the column's current mapping, and lock the row until the transaction ends.  Raises NotFoundError if it was
    deleted.
    """
    rows = type(record)._default_manager.select_for_update().filter(pk=record.pk)
    value = rows.values_list(column, flat=True).first()
    if value is None:
        raise _not_found(record)
    return dict(value)


def store(record: Model, values: Mapping[str, Any]) -> None:
    """Update columns.  Raises NotFoundError if the row was deleted in the meantime."""
    if not values:
        return
    if not type(record)._default_manager.filter(pk=record.pk).update(**values):
        raise _not_found(record)
    for name, value in values.items():
        setattr(record, name, value)


@contextmanager
def one_of_its_name(model: type[Model], **key: Any) -> Iterator[None]:
    """Run a write in a transaction.  Raises ConflictError if the key exists, also if it was created concurrently."""
    what = str(model._meta.verbose_name)
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if model._default_manager.filter(**key).exists():
            sentence = f"A {what} with the name {key['name']} already exists. Choose another name."
        else:
            sentence = f"An object that this {what} refers to was deleted in the meantime. Check it, and try again."
        raise ConflictError(sentence, field="name") from error


def checked(changes: Mapping[str, Any], longest_name: int = SHORT) -> dict[str, Any]:
    """Return the validated name and description of the changes.  Raises InvalidInputError."""
    result: dict[str, Any] = {}
    if "name" in changes:
        result["name"] = check_name(changes["name"], longest_name)
    if "description" in changes:
        result["description"] = check_text(changes["description"])
    return result


@contextmanager
def changed(
    record: Domain | Group | Project | User, changes: Mapping[str, Any], values: dict[str, Any]
) -> Iterator[None]:
    """Update the columns ``values`` and the additional fields of the changes, in one transaction with the block.

    Raises ConflictError if the name exists, NotFoundError if the record was deleted in the meantime.
    """
    place = {} if isinstance(record, Domain) else {"domain": record.domain_id}
    keeping = keeping_an_administrator() if "enabled" in changes else nullcontext()
    with one_of_its_name(type(record), name=changes.get("name", record.name), **place), keeping:
        if "extra" in changes:
            values["extra"] = merged(current(record, "extra"), changes["extra"])
        store(record, values)
        yield


@contextmanager
def undisturbed(what: str) -> Iterator[None]:
    """Run a deletion in a transaction.  Raises ConflictError if a concurrent request created a row that refers to the
    object.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise ConflictError(f"The {what} was used by another request. Check it, and try again.") from error


def refuse_immutable(record: Any, change: Mapping[str, Any] | None = None) -> None:
    """Raise ForbiddenError if the record has the option ``immutable``, unless the change removes it."""
    options = record.extra.get("options") or {}
    lifted = ((change or {}).get("extra") or {}).get("options", options) or {}
    if options.get("immutable") and (change is None or lifted.get("immutable")):
        raise ForbiddenError(f"The {type(record).__name__.lower()} is immutable. Remove its option immutable first.")


def _not_found(record: Model) -> NotFoundError:
    key = record.pk if isinstance(record.pk, str) else record.pk.hex
    return NotFoundError(f"Could not find {record._meta.verbose_name}: {key}.")
