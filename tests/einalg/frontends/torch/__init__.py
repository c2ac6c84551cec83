"""Tests of `einalg/frontends/torch`."""
