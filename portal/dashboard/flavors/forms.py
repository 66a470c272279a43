"""The form for a new flavor."""

from django import forms

from portal.dashboard.frame.forms import Form, WholeNumberField


class FlavorForm(Form):
    """Name, resources and visibility of a flavor."""

    service_fields = {"ram": "memory_mb", "disk": "root_gb"}
    notes = {"memory_mb": "MiB", "root_gb": "GiB"}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "m1.xlarge"}))
    vcpus = WholeNumberField(label="vCPUs", min_value=1, initial=1)
    memory_mb = WholeNumberField(label="Memory", min_value=1)
    root_gb = WholeNumberField(label="Disk", help_text="0 uses the image's size")
    description = forms.CharField(required=False)
    is_public = forms.BooleanField(label="Public: every project may use it", required=False, initial=True)
