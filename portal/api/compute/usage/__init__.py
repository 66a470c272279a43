"""Usage reports and the log of usage audits."""
