"""Two nodes of some GPUs each, as several figures draw them."""

import svg

__all__ = ["two_nodes"]


def two_nodes(drawing, top, gpus, left=(40, 430), width=290, height=170):
    """Draws both; gives the centre of each GPU, by node and local rank."""
    centres = []
    for node, x in enumerate(left):
        drawing.box(x, top, width, height, fill="#fafbfc")
        drawing.words(x + width / 2, top + 16, f"node {node}", 12, bold=True)
        row = []
        for local in range(gpus):
            x_gpu = x + width * (local + 0.5) / gpus
            y_gpu = top + 60
            drawing.box(x_gpu - 30, y_gpu - 18, 60, 36, f"GPU {node * gpus + local}", svg.QUIET, 12)
            row.append((x_gpu, y_gpu))
        centres.append(row)
    return centres
