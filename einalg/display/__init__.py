"""Derivation in notebooks: mathematics in the browser, the widget of a session, and pictures
(design §1, §4).

Importing it needs no notebook package; what needs one imports it when it is used
(`einalg[notebook]`).
"""
