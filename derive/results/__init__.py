"""The results of a derivation, from the search's candidates to what a person reads.

`pipeline` joins search, proof (`verification`) and measuring (`selection`) to a `SearchResult`; the
other modules are its parts as plain values and plain text. It may import the other rooms of
`derive` but `programs` and `interactive`, and nothing that shows things: HTML is made of these
values in `einalg.display.results`.
"""
