"""Rules by the laws of arithmetic: distribution, staging, bilinear factorisation.

They import `derive.rewriting`, `derive.bilinear` and `derive.rules.intra`. A rule that needs a law
of sums and products, and none of index sets, goes here.
"""
