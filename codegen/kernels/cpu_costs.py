"""Coefficients of the cost models that choose the numbers of loop nests for a CPU (design §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuCostModel:
    """How much work a core does in a cycle, and what it waits for.

    Costs are in cycles where no other unit is named. Vectors that are wider than a core's units
    take several passes through these (`CpuModel.passes`); the coefficients are those of one pass.

    >>> from dataclasses import replace
    >>> replace(CPU_COSTS, product_latency=5).product_latency
    5
    """

    # Arithmetic.
    products_per_cycle: int = 2  # vectors
    loads_per_cycle: int = 2  # vectors
    instructions_per_cycle: int = 5  # of any kind
    product_latency: int = 4  # until something can be added to a product
    # Caches.
    line_bytes: int = 64
    page_bytes: int = 4096
    level2_ways: int = 8  # lines of a set
    level2_bytes_per_cycle: int = 24
    conflict_miss: float = 1.0  # a line of the first cache that others of its set displaced
    page_miss: float = 4.0  # a new page, whose data are in the second cache
    memory_line: float = 3.0  # a line that is not in the second cache
    memory_page: float = 45.0  # a new page of such lines
    unpredicted_line: float = 9.0  # a line from memory that the processor does not ask for early
    # Register tiles of contractions.
    tile_start: int = 20
    store: int = 3  # a vector of results
    kept_sum: float = 0.25  # reading or writing a vector of sums between steps of depth
    apart_element: float = 2.0  # of a single row of results whose columns lie apart
    transposed_element: float = 1.0  # of results whose columns lie apart
    scattered_element: float = 4.0  # of results that lie apart along rows and columns
    packed_vector: float = 4.5  # copying a vector into a panel
    packed_element: float = 2.0  # copying one element into a panel or a tile
    turned_element: float = 1.0  # copying one in squares that change their order in registers
    strided_element: float = 0.25  # reading an element of the left operand out of order
    bordered_line: int = 8  # beginning a line of a copy with borders
    bordered_elements_per_cycle: int = 4
    few_row_tiles: int = 16  # fewer take a panel from memory faster than it comes
    min_shared_products: int = 256  # of a step of depth that threads share
    min_sharing_gain: float = 1.1  # times as busy as threads must be to share steps of depth
    # Loops.
    loop_start: float = 4.0  # of a loop in vectors, with what fills none
    inserted_element: float = 1.5  # an element that is put into a vector with others
    # Register tiles of bands, stencils and depthwise convolutions.
    overlapped_store: float = 1.0  # a vector of results, while others are computed
    run_of_lines: float = 0.25  # neighbouring lines that are in no cache
    displaced_line: float = 5.0  # a line of the first cache that others of its set displaced
    load_beside_products: float = 0.125
    level2_vector: float = 0.5  # a vector that is in the second cache
    level2_line: float = 0.75  # a line that is in the second cache
    copied_element: float = 0.2  # an element of a line that is copied as it lies
    gathered_element: float = 1.0  # an element of a line that is copied in steps


CPU_COSTS = CpuCostModel()
