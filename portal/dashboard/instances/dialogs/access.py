"""Lock, password and state of an instance."""

from collections.abc import Sequence
from typing import Literal

from django import forms
from django.http import HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, Secret
from portal.dashboard.copy_as.kinds import compute as copied
from portal.dashboard.frame.forms import ChoiceLabel, Form, OfferedField
from portal.dashboard.instances.page import InstanceSheet
from provisioning.compute.actions import lock, power, reset_state


class LockForm(Form):
    """The reason of a lock."""

    reason = forms.CharField(max_length=255, required=False, help_text="All users of the project see it.")


class LockWithReason(InstanceSheet):
    """Locks the instance; all users of the project see the reason."""

    path, label, icon, action = "lock", "Lock", "lock", "lock"
    heading, submit, message = "Lock {name}?", "Lock", "{name} is locked."
    consequence = "It cannot be changed or deleted until it is unlocked."

    def form(self, data: QueryDict | None = None) -> Form:
        return LockForm(data)

    def save(self, form: Form) -> HttpResponse:
        lock.lock(self.context, self.instance.id, reason=form.cleaned_data["reason"] or None)
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.LOCK, {"server": str(self.instance.id), "reason": form.cleaned_data["reason"]})]


class PasswordForm(Form):
    """A new password, typed twice."""

    password = forms.CharField(
        max_length=255, strip=False, widget=forms.PasswordInput({"autocomplete": "new-password"})
    )
    again = forms.CharField(
        label="Repeat the password",
        max_length=255,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
    )

    def clean(self) -> None:
        """Reject the form if the password was not repeated exactly."""
        typed = self.cleaned_data
        if "password" in typed and "again" in typed and typed["password"] != typed["again"]:
            self.add_error("again", "The passwords are not the same.")


class ChangePassword(InstanceSheet):
    """Sets the administrator's password through the guest agent."""

    path, label, icon, action = "password", "Set password", "key", "change_password"
    heading, submit, message = "Set the password of {name}", "Set password", "The password of {name} is being set."

    consequence = "The guest agent sets it for the image's login user, by default root."

    def form(self, data: QueryDict | None = None) -> Form:
        return PasswordForm(data)

    def save(self, form: Form) -> HttpResponse:
        power.ChangePassword.begin(self.context, self.instance.id, form.cleaned_data["password"])
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.PASSWORD, {"server": str(self.instance.id), "password": Secret("password")})]


class StateForm(Form):
    """Offers the states that the instance may be reset to."""

    state = OfferedField(error_messages={"required": "Choose a state."})


class ResetState(InstanceSheet):
    """Sets the state of a stuck instance, without a command to its host."""

    path, label, icon, action = "reset-state", "Reset state", "bandaid", "reset_state"
    heading, submit, message = "Reset the state of {name}?", "Reset state", "The state of {name} was reset."
    consequence = (
        "Only the record changes: its host gets no command, and later reports about the current task are ignored."
    )
    danger = True

    def form(self, data: QueryDict | None = None) -> Form:
        form = StateForm(data, initial={"state": "active" if self.instance.host_id else "error"})
        form.offer(
            "state",
            [
                ("active", ChoiceLabel("Active", "The guest runs on its host.")),
                ("error", ChoiceLabel("Error", "It can be deleted, rebuilt or hard-rebooted.")),
            ],
        )
        return form

    def save(self, form: Form) -> HttpResponse:
        state: Literal["active", "error"] = "active" if form.cleaned_data["state"] == "active" else "error"
        reset_state.ResetState.begin(self.context, self.instance.id, state)
        return self.done()

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.RESET_STATE, {"server": str(self.instance.id), "state": form.cleaned_data["state"]})]
