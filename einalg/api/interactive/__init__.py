"""Derivation by hand in Jupyter: the panel of a session, its widget, and its search in the
background. Schedules by hand: how they are shown.

`panel` has no notebook in it: it holds sections of plain values and does what buttons ask for;
`widget` shows it where anywidget is installed, `show` elsewhere. `schedule_html` shows schedules.
Only `einalg.api` imports it.
"""
