"""The public functions: the only folder that joins the three packages.

It may import everything; only `einalg.cli` and `einalg` itself import it. A new public function
goes into the module of its subject and into the table of `einalg/__init__.py`; a new kind of result
gets its row in `representations`.
"""

from einalg.api.representations import attach_representations

attach_representations()
