"""The names of the strategies, for options: nothing is imported to list them."""

EVOLUTION, RANDOM, MODEL = STRATEGY_NAMES = ("evolution", "random", "model")
