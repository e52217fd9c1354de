"""Data preparation: published problem sets, or a user's own file, to the one parquet layout that the trainer reads."""
