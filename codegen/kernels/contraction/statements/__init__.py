"""How statements are contractions: bodies of any form, phases of strides, epilogues."""
