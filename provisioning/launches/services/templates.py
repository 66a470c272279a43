"""Launch templates: created with a first version, changed by new versions, and used by launches."""

import re
import unicodedata
import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Max

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute.records.names import check_text
from provisioning.identity import policy
from provisioning.identity.records.owner_locks import lock_project
from provisioning.launches import selectors
from provisioning.launches.errors import LockedFieldError, TooManyError
from provisioning.launches.models import LaunchTemplate, LaunchTemplateVersion
from provisioning.launches.ownership import MOST_TEMPLATES, MOST_VERSIONS
from provisioning.launches.plans.plan import FIELDS, LaunchPlan, plan_of, values_of
from provisioning.launches.services.check import check_locked_values

NEVER_LOCKED = frozenset({"name"})
WRITE, PUBLICIZE = "novella:launch_templates:write", "novella:launch_templates:publicize"
LONGEST_SLUG = 64
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_SOURCE = "boot_from"
"""The field that is locked together with the image, because a boot volume would replace the image."""
TAKEN = "This link is already used by another launch template."


@dataclass(frozen=True, slots=True)
class Source:
    """The version of a launch template that a launch uses."""

    template_id: uuid.UUID
    number: int


@dataclass(frozen=True, slots=True)
class Modes:
    """The treatment of fields: ``locked`` cannot be changed, ``asked`` are shown first; others have a default."""

    locked: Collection[str] = ()
    asked: Collection[str] = ()
    description: str = ""


def slug_of(name: str) -> str:
    """Return a link for a name: lower-case letters, digits and hyphens; may be empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST_SLUG].strip("-")


def source_of(template: LaunchTemplate, version: LaunchTemplateVersion) -> Source:
    return Source(template.id, version.number)


def plan_in(version: LaunchTemplateVersion) -> LaunchPlan:
    return plan_of(version.values)


def check_locked(context: RequestContext, plan: LaunchPlan, source: Source) -> frozenset[str]:
    """Return the locked fields of a plan's template.

    Raises LockedFieldError if the plan differs from the template in one of them, NotFoundError if the version does not
    exist.
    """
    template = selectors.template_for(context, source.template_id)
    version = selectors.version_of(template, source.number)
    fixed = plan_in(version)
    for name in version.locked:
        if getattr(plan, name) != getattr(fixed, name):
            raise LockedFieldError("The launch template does not allow another value here.", field=name)
    return frozenset(version.locked)


@when_broken_off
def create_template(
    context: RequestContext, name: str, slug: str, plan: LaunchPlan, modes: Modes, *, public: bool = False
) -> LaunchTemplate:
    """Create a launch template with version 1. Raises InvalidInputError, ConflictError, ForbiddenError."""
    project_id = _project(context)
    _check_public(context, public=public)
    columns = {"name": check_text(name, "name", shortest=1), "slug": _checked_slug(slug or slug_of(name))}
    try:
        with transaction.atomic():
            lock_project(project_id)
            if LaunchTemplate.objects.filter(project_id=project_id).count() >= MOST_TEMPLATES:
                raise TooManyError(f"A project has at most {MOST_TEMPLATES} launch templates.")
            template = LaunchTemplate.objects.create(
                project_id=project_id, user_id=context.user_id, public=public, **columns
            )
            _write(context, template, 1, plan, modes)
    except IntegrityError as error:
        raise ConflictError(TAKEN, field="slug") from error
    return template


@when_broken_off
def add_version(
    context: RequestContext, template_id: uuid.UUID | str, plan: LaunchPlan, modes: Modes, *, default: bool = True
) -> LaunchTemplateVersion:
    """Add a version to a launch template of the project, the default one unless ``default`` is False.

    Raises NotFoundError, InvalidInputError, TooManyError.
    """
    with transaction.atomic():
        template = _locked(context, template_id)
        if template.versions.count() >= MOST_VERSIONS:
            raise TooManyError(f"A launch template has at most {MOST_VERSIONS} versions: delete an older one.")
        number = (template.versions.aggregate(last=Max("number"))["last"] or 0) + 1
        version = _write(context, template, number, plan, modes)
        if default:
            template.default_version = number
        template.save(update_fields=["default_version", "updated_at"])
    return version


@when_broken_off
def update_template(
    context: RequestContext,
    template_id: uuid.UUID | str,
    *,
    name: str,
    slug: str,
    public: bool,
) -> LaunchTemplate:
    """Change the name, link and visibility. Raises NotFoundError, InvalidInputError, ConflictError, ForbiddenError."""
    try:
        with transaction.atomic():
            template = _locked(context, template_id)
            if public != template.public:
                _check_public(context, public=True)
            template.name, template.slug = check_text(name, "name", shortest=1), _checked_slug(slug)
            template.public = public
            template.save(update_fields=["name", "slug", "public", "updated_at"])
    except IntegrityError as error:
        raise ConflictError(TAKEN, field="slug") from error
    return template


@when_broken_off
def set_default(context: RequestContext, template_id: uuid.UUID | str, number: int) -> LaunchTemplate:
    """Set the version that launches use. Raises NotFoundError."""
    with transaction.atomic():
        template = _locked(context, template_id)
        template.default_version = selectors.version_of(template, number).number
        template.save(update_fields=["default_version", "updated_at"])
    return template


@when_broken_off
def delete_version(context: RequestContext, template_id: uuid.UUID | str, number: int) -> None:
    """Delete a version other than the default one. Raises NotFoundError, ConflictError."""
    with transaction.atomic():
        template = _locked(context, template_id)
        version = selectors.version_of(template, number)
        if number == template.default_version:
            raise ConflictError("The default version cannot be deleted: choose another default first.")
        version.delete()


@when_broken_off
def delete_template(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Delete a launch template with its versions; servers that it has launched stay. Raises NotFoundError."""
    with transaction.atomic():
        template = _locked(context, template_id)
        LaunchTemplate.objects.filter(pk=template.pk).delete()
    return template


def _locked(context: RequestContext, template_id: uuid.UUID | str) -> LaunchTemplate:
    """Lock a launch template of the caller's project. A public one is changed by operators only."""
    visible = selectors.own_template_for(context, template_id)
    template = LaunchTemplate.objects.select_for_update().get(pk=visible.pk)
    _check_public(context, public=template.public)
    return template


def _write(
    context: RequestContext, template: LaunchTemplate, number: int, plan: LaunchPlan, modes: Modes
) -> LaunchTemplateVersion:
    needed = {*modes.locked, *([_SOURCE] if "image" in modes.locked else [])} - NEVER_LOCKED
    locked = [name for name in FIELDS if name in needed]
    requested = [name for name in FIELDS if name in modes.asked and name not in locked]
    if unknown := {*modes.locked, *modes.asked} - set(FIELDS):
        raise InvalidInputError(f"A launch has no field {min(unknown)!r}.")
    if locked:
        check_locked_values(context, plan, locked)
    return LaunchTemplateVersion.objects.create(
        template=template,
        number=number,
        values=values_of(plan),
        locked=locked,
        asked=requested,
        description=check_text(modes.description, "description"),
        user_id=context.user_id,
    )


def _project(context: RequestContext) -> uuid.UUID:
    if context.project_id is None:
        raise ForbiddenError("A launch template needs a project: use a token that is scoped to one.")
    return context.project_id


def _check_public(context: RequestContext, *, public: bool) -> None:
    if public:
        policy.enforce(context, PUBLICIZE)


def _checked_slug(slug: str) -> str:
    if not _SLUG.fullmatch(slug) or len(slug) > LONGEST_SLUG:
        msg = f"Use 1 to {LONGEST_SLUG} lower-case letters and digits, with single hyphens between them."
        raise InvalidInputError(msg, field="slug")
    return slug
