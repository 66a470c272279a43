"""Builds the small guest image from the packages of this machine's Debian or Ubuntu."""
