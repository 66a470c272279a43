"""Sessions and credentials, which operators can list and revoke; secrets are not shown."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from portal.ops.admin.base import Readable
from provisioning.identity.models import ApplicationCredential, Credential, SignIn, Trust
from provisioning.identity.services.application_credentials import delete_application_credential
from provisioning.identity.services.credentials import delete_credential
from provisioning.identity.services.sign_ins import end_sign_in
from provisioning.identity.services.trusts import delete_trust


class Endable(Readable):
    """Records that an operator may delete, singly or several together, through the service."""

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "delete", obj)


@admin.register(SignIn)
class SignInAdmin(Endable):
    """Browser sessions and programs with tokens."""

    list_display = ("user", "program", "address", "browser", "project", "last_used_at", "expires_at")
    ordering = ("-last_used_at",)
    list_filter = ("browser",)
    list_select_related = ("user", "project")
    search_fields = ("user__name", "address", "program")
    fields = (
        "user", "browser", "methods", "address", "program", "application_credential", "project", "created_at",
        "last_used_at", "expires_at",
    )  # fmt: skip
    rules = {"view": "identity:list_users", "delete": "identity:update_user"}

    def delete_model(self, request: HttpRequest, obj: SignIn) -> None:
        """End the session: its tokens are invalid immediately."""
        end_sign_in(obj)


@admin.register(ApplicationCredential)
class ApplicationCredentialAdmin(Endable):
    list_display = ("name", "user", "project", "expires_at", "unrestricted", "created_at")
    ordering = ("user__name", "name")
    list_filter = ("unrestricted",)
    list_select_related = ("user", "project")
    search_fields = ("name", "user__name", "project__name")
    fields = (
        "name", "user", "project", "description", "roles", "access_rules", "unrestricted", "expires_at", "created_at",
    )  # fmt: skip
    rules = {
        "view": "identity:list_application_credentials",
        "delete": "identity:delete_application_credential",
    }

    def delete_model(self, request: HttpRequest, obj: ApplicationCredential) -> None:
        """Delete the credential: its tokens are invalid immediately."""
        delete_application_credential(obj)


@admin.register(Trust)
class TrustAdmin(Endable):
    """Trusts, with trustor and trustee."""

    list_display = ("trustor", "trustee", "project", "impersonation", "expires_at", "remaining_uses", "created_at")
    ordering = ("-created_at",)
    list_filter = ("impersonation",)
    list_select_related = ("trustor", "trustee", "project")
    search_fields = ("trustor__name", "trustee__name", "project__name")
    fields = (
        "trustor", "trustee", "project", "impersonation", "expires_at", "remaining_uses", "redelegated_from",
        "redelegation_count", "created_at",
    )  # fmt: skip
    rules = {"view": "identity:list_trusts", "delete": "identity:delete_trust"}

    def delete_model(self, request: HttpRequest, obj: Trust) -> None:
        """Delete the trust and the trusts redelegated from it: their tokens are invalid immediately."""
        delete_trust(obj)


@admin.register(Credential)
class CredentialAdmin(Endable):
    """EC2, one-time-password and other credentials, without their secrets."""

    list_display = ("id", "type", "user", "project", "created_at")
    ordering = ("-created_at",)
    list_filter = ("type",)
    list_select_related = ("user", "project")
    search_fields = ("user__name", "project__name")
    fields = ("id", "type", "user", "project", "application_credential", "trust", "created_at")
    rules = {"view": "novella:list_credentials:all_users", "delete": "identity:delete_credential"}

    def delete_model(self, request: HttpRequest, obj: Credential) -> None:
        delete_credential(obj)
