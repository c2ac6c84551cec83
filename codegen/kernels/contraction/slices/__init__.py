"""Contractions with a statement over the results of each batch, such as its softmax."""
