"""The cost model that measurements correct: what a search expects of candidates (design §16).

`description` is what is known of a candidate, `samples` what was measured of some, `kernel_ridge`
and `boosted_trees` learn from a `training` set how measured times depart from the analytic model.
`shared` learns so from many units, `learned` corrects that for one, `quality` says how well costs
rank, and `checked` uses what ranks best. May import the spaces and the records. Another way to
learn is a module here, and a row in `shared`.
"""
