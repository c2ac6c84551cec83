"""Moves as values, where they apply, and what rules are made of (design §6).

`moves` has `Rule`, `Move` and the two functions `moves` and `apply`; `paths` names the scopes of a
program; `body_queries`, `domains` and `arguments` answer what several rules ask; `element_types`
keeps the types of what is rewritten; `user_rules` makes and tests rules of the user's own. The
folder imports `einalg.language` alone. A question that a second rule asks of a body goes to
`body_queries`.
"""
