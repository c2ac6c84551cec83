"""What is kept on disk: the cache, files written whole, records with a schema."""
