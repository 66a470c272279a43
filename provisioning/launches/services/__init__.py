"""Services of launch plans, leases, launch templates and snippets."""
