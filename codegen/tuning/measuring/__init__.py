"""Times of candidates: compiled in batches, and run in child processes that may die (design §16).

`compilation` makes shared objects on any executor, `task` says what a child does, `child` is what
runs there, and `batch` starts it, and says of each candidate how long it takes or why it is
refused. `device_task` and `device_child` are the same for a device. May import the runtime, the
targets and the spaces. Another way to run candidates is a module here.
"""
