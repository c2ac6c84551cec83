"""The nodes of an expression: tensors, bodies, scopes, programs."""
