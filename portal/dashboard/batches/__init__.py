"""Actions on many resources: confirmation, the tray, and the results."""
