"""The present state of the cloud and its faults, for the operators' pages."""
