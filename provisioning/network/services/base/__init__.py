"""Parts that all networking services share."""
