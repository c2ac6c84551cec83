"""The README's examples and figures, written anew by `python -m docs.readme` (`make readme`).

`transcript` runs the examples as a reader would and writes what they print below them; `figures`
writes the chart and the figures, which are made from the files in `bench/results`.
"""
