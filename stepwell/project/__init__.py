"""A user's project as plain data: files, settings, definitions, tables."""
