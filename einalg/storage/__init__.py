"""Storage on disk: the cache, files written whole, records with a schema.

`disk_cache` holds everything that can be computed again, `fingerprint` makes its keys,
`atomic_file` writes files of users whole or not at all, and `record` reads and writes JSON with a
schema number. Imports only `einalg.errors`; everything above imports from here. A new kind of
cached content is a `DiskCache` in the module that computes it, with a key made by `fingerprint`.
"""
