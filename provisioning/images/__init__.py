"""Images: records, data, uploads, imports and inspection."""
