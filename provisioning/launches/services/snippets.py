"""Snippets of cloud-config: created, changed and deleted by a project, and chosen by launches."""

import uuid
from collections.abc import Sequence

from django.db import IntegrityError, transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.launch.multipart import CLOUD_CONFIG
from provisioning.compute.records.names import check_text
from provisioning.identity.records.owner_locks import lock_project
from provisioning.launches import selectors
from provisioning.launches.cloud_config.builtin import BUILT_IN
from provisioning.launches.cloud_config.check import problem_of
from provisioning.launches.errors import TooManyError
from provisioning.launches.models import Snippet
from provisioning.launches.ownership import LONGEST_SNIPPET, MOST_SNIPPETS

TAKEN = "The project has a snippet with this name already."


def texts_of(context: RequestContext, chosen: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and text of snippets: built-in names, and ids of the project's. Raises InvalidInputError."""
    result = []
    for key in dict.fromkeys(chosen):
        if key in BUILT_IN:
            result.append((key, BUILT_IN[key].text))
            continue
        try:
            snippet = selectors.snippet_for(context, key)
        except NotFoundError as error:
            raise InvalidInputError("A chosen snippet no longer exists.", field="snippets") from error
        result.append((str(snippet.id), snippet.text))
    return result


@when_broken_off
def create_snippet(context: RequestContext, name: str, text: str, description: str = "") -> Snippet:
    """Create a snippet. Raises InvalidInputError, ConflictError for a name in use, TooManyError."""
    if context.project_id is None:
        raise ForbiddenError("A snippet needs a project: use a token that is scoped to one.")
    columns = _checked(name, text, description)
    try:
        with transaction.atomic():
            lock_project(context.project_id)
            if selectors.snippets_for(context).count() >= MOST_SNIPPETS:
                raise TooManyError(f"A project has at most {MOST_SNIPPETS} snippets.")
            return Snippet.objects.create(project_id=context.project_id, user_id=context.user_id, **columns)
    except IntegrityError as error:
        raise ConflictError(TAKEN, field="name") from error


@when_broken_off
def update_snippet(
    context: RequestContext, snippet_id: uuid.UUID | str, name: str, text: str, description: str = ""
) -> Snippet:
    """Change a snippet; running servers do not change. Raises the errors of ``create_snippet``."""
    columns = _checked(name, text, description)
    snippet = selectors.snippet_for(context, snippet_id)
    for column, value in columns.items():
        setattr(snippet, column, value)
    try:
        with transaction.atomic():
            snippet.save(update_fields=[*columns, "updated_at"])
    except IntegrityError as error:
        raise ConflictError(TAKEN, field="name") from error
    return snippet


def delete_snippet(context: RequestContext, snippet_id: uuid.UUID | str) -> Snippet:
    """Delete a snippet. Raises NotFoundError."""
    snippet = selectors.snippet_for(context, snippet_id)
    Snippet.objects.filter(pk=snippet.pk).delete()
    return snippet


def _checked(name: str, text: str, description: str) -> dict[str, str]:
    text = text.replace("\r\n", "\n").strip() + "\n"
    if not text.startswith(f"{CLOUD_CONFIG}\n"):
        raise InvalidInputError(f"The first line must be {CLOUD_CONFIG}.", field="text")
    if problem := problem_of(text):
        raise InvalidInputError(problem, field="text")
    if len(text.encode()) > LONGEST_SNIPPET:
        raise InvalidInputError(f"A snippet has at most {LONGEST_SNIPPET} bytes.", field="text")
    return {
        "name": check_text(name, "name", shortest=1, longest=64),
        "text": text,
        "description": check_text(description, "description"),
    }
