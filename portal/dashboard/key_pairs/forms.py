"""The form for a new key pair."""

from django import forms

from portal.dashboard.frame.forms import ChoiceLabel, Form

ORIGINS = (
    ("make", ChoiceLabel("Create a new pair", "The private key is shown once, to download.")),
    ("import", ChoiceLabel("Import an existing key", "Paste the public key.")),
)
ALGORITHMS = (("ed25519", "ed25519, short and strong"), ("rsa", "RSA, for old programs"))


class KeyPairForm(Form):
    """A name, and the type of a new pair or the public key of an existing one."""

    notes = {"public_key": ""}

    name = forms.CharField(max_length=255, widget=forms.TextInput({"placeholder": "laptop"}))
    how = forms.ChoiceField(label="Source", choices=ORIGINS, initial="make", required=False, widget=forms.RadioSelect)
    algorithm = forms.ChoiceField(label="Kind", choices=ALGORITHMS, required=False)
    public_key = forms.CharField(
        required=False,
        widget=forms.Textarea({"class": "mono small", "rows": 4, "placeholder": "ssh-ed25519 AAAA… you@laptop"}),
        help_text="The content of ~/.ssh/id_ed25519.pub. Never paste a private key anywhere.",
    )
