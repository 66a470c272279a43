"""Resources that users have starred, to find them again."""
