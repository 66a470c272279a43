"""Files that all processes of a machine share."""
