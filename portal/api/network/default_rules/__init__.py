"""Rules that new security groups begin with."""
