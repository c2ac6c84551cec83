"""Rules of arithmetic: distribution, staging, bilinear factorisation."""
