"""Functions that ``provisioning.wiring`` gives to other packages: owners, retention, restores."""
