"""The states of a search as a tree to zoom and walk in."""

from __future__ import annotations

from derive.search.search_tree import SearchTree, colour
from einalg.display.tree_svg import TreeNode, tree_html

MAX_STATES = 150  # of a picture, which more would make slow


def search_tree_html(tree: SearchTree) -> str:
    """Return the tree, coloured by distance; of many states those next to an operator, with the
    ways to them.
    """
    rows, path = tree.nearest(MAX_STATES), tree.best_path
    farthest = max((row.distance for row in rows), default=0.0) or 1.0
    nodes = []
    for row, program in zip(rows, tree.programs(rows)):
        node = TreeNode(
            row.number,
            row.parent,
            row.label,
            row.note,
            colour(row.distance / farthest),
            bold=row.number in path,
            framed=row.candidate,
            text=program,
            end=row.number == tree.best_number,
        )
        nodes.append(node)
    return tree_html(nodes, len(tree.rows) - len(rows))
