"""Capture of torch modules as ATen graphs.

`export` is the door: it returns the graph of a module, from the cache while the module still makes
the same calls (`call_trace`, which follows a call on `shape_trace` and restores what it changed
with `module_state`). `functionalize` replaces writes to memory, `recurrent_ops` keeps recurrent
networks from being unrolled, and `graph_json` writes graphs as records. Imported by
`einalg.frontends.torch.module` and the backend of torch.compile; torch itself is imported inside
functions only, because it is optional.
"""
