"""Pictures, boxes and heat in TensorFlow, all on the device: the twin of `torch_boxes.py`."""

from __future__ import annotations

import tensorflow as tf

from reference_impls.detection.shared import CENTRE, GAUSSIAN, ROUNDS, SPREAD, VISIBLE, Hyperparameters


def cells_of(planes: tf.Tensor, stride: int) -> tf.Tensor:
    """Planes [B, C, H, W] as cells [B, h, w, C * stride**2], each with the pixels of its patch."""
    batch, channels, height, width = planes.shape
    h, w = height // stride, width // stride
    split = tf.reshape(planes, (batch, channels, h, stride, w, stride))
    return tf.reshape(tf.transpose(split, (0, 2, 4, 1, 3, 5)), (batch, h, w, channels * stride**2))


def normalised(pixels: tf.Tensor) -> tf.Tensor:
    """Bytes to float32 around zero."""
    return (tf.cast(pixels, tf.float32) - CENTRE) / SPREAD


def moved_planes(planes: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Planes [B, C, H, W], scaled about the centre and shifted, by linear interpolation; zero beyond the picture.

    It takes two matrix products: TensorFlow has no `grid_sample`, and gathering columns takes longer.
    """
    across, down = (sampling(scale[:, axis], shift[:, axis], planes.shape[3 - axis]) for axis in (0, 1))
    return tf.matmul(tf.matmul(down[:, None], planes), across[:, None], transpose_b=True)


def sampling(scale: tf.Tensor, shift: tf.Tensor, side: int) -> tf.Tensor:
    """Matrices [B, side, side] that interpolate the pixels of a side."""
    pixels = tf.range(side, dtype=tf.float32)
    centre = (side - 1) / 2
    sources = (pixels - centre - side * shift[:, None]) / scale[:, None] + centre
    return tf.maximum(1 - tf.abs(sources[..., None] - pixels), 0)


def moved_boxes(
    boxes: tf.Tensor, classes: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, frame: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Boxes [B, L, 4] and classes [B, L] of pictures of size `frame` [2] that were moved by `moved_planes`.

    Boxes are cut at the border; an object of which less than `VISIBLE` is left gets class -1.
    """
    corners = tf.reshape(boxes, (*boxes.shape[:2], 2, 2)) - frame / 2
    corners = scale[:, None, None] * corners + (frame / 2 + shift * frame)[:, None, None]
    low, high = tf.reduce_min(corners, -2), tf.reduce_max(corners, -2)
    cut_low, cut_high = (tf.clip_by_value(corner, 0, frame) for corner in (low, high))
    seen = tf.reduce_prod(cut_high - cut_low, -1) >= VISIBLE * tf.reduce_prod(high - low, -1)
    return tf.concat([cut_low, cut_high], -1), tf.where(seen, classes, -1)


def targets(
    boxes: tf.Tensor, classes: tf.Tensor, height: int, width: int, hyper: Hyperparameters
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The network's targets in each cell, from boxes [B, L, 4] in pixels and classes [B, L], -1 where there is none.

    Heat [B, h, w, classes] is one at an object's centre and falls off around it; sides [B, h, w, 4] are the pixels
    from the cell's centre to the left, top, right and bottom of its object; weight [B, h, w] is how much the sides
    count, at most one in all for each object.
    """
    centre = (boxes[..., :2] + boxes[..., 2:]) / (2 * hyper.stride)
    size = (boxes[..., 2:] - boxes[..., :2]) / hyper.stride
    radius = tf.floor(GAUSSIAN * size / 2)
    deviation = (2 * radius + 1) / 6
    bells = []
    for axis, cells in enumerate((width, height)):
        cell = tf.clip_by_value(tf.floor(centre[..., axis, None]), 0, cells - 1)
        distance = tf.abs(tf.range(cells, dtype=tf.float32) - cell)
        exponent = tf.where(distance <= radius[..., axis, None], distance / deviation[..., axis, None], float("inf"))
        bells.append(tf.exp(-0.5 * tf.square(exponent)))
    across, down = bells
    present = classes >= 0
    heats = down[..., None] * (across * tf.cast(present[..., None], tf.float32))[..., None, :]  # [B, L, h, w]
    of_class = tf.one_hot(classes, hyper.classes)
    heat = tf.reduce_max(heats[:, :, None] * of_class[..., None, None], 1)

    area = tf.where(present, tf.reduce_prod(size, -1), float("inf"))[..., None, None]
    owner = tf.argmin(tf.where(heats > 0, area, float("inf")), 1)  # where objects overlap, the smallest
    weight = heats / tf.maximum(tf.reduce_sum(heats, (2, 3), keepdims=True), 1)
    weight = tf.gather(tf.transpose(weight, (0, 2, 3, 1)), owner, axis=3, batch_dims=3)
    box = tf.gather(boxes, owner, axis=1, batch_dims=1)
    points = cell_centres(height, width, hyper.stride)
    sides = tf.concat([points - box[..., :2], box[..., 2:] - points], -1)
    return tf.transpose(heat, (0, 2, 3, 1)), sides, weight


def cell_centres(height: int, width: int, stride: int) -> tf.Tensor:
    """x and y [h, w, 2] of the cells' centres in pixels."""
    y, x = ((tf.range(cells, dtype=tf.float32) + 0.5) * stride for cells in (height, width))
    return tf.stack(tf.meshgrid(x, y), -1)


def loss_of(
    heat: tf.Tensor, sides: tf.Tensor, boxes: tf.Tensor, classes: tf.Tensor, hyper: Hyperparameters
) -> tf.Tensor:
    """CenterNet's focal loss of the heat plus TTFNet's weighted GIoU loss of the sides, summed over all objects."""
    true_heat, true_sides, weight = targets(boxes, classes, heat.shape[1], heat.shape[2], hyper)
    score = tf.sigmoid(heat)
    hit = tf.square(1 - score) * tf.math.log_sigmoid(heat)
    miss = tf.square(tf.square(1 - true_heat) * score) * tf.math.log_sigmoid(-heat)
    focal = -tf.reduce_sum(tf.where(true_heat == 1, hit, miss))
    giou = tf.reduce_sum(weight * giou_loss(sides, true_sides))
    return focal + hyper.box_loss_weight * giou


def giou_loss(sides: tf.Tensor, true_sides: tf.Tensor) -> tf.Tensor:
    """One minus the generalised IoU (Rezatofighi et al. 2019) of boxes given by their sides [..., 4] around a point."""

    def area(of: tf.Tensor) -> tf.Tensor:
        return (of[..., 0] + of[..., 2]) * (of[..., 1] + of[..., 3])

    least = tf.minimum(sides, true_sides)
    extent = tf.nn.relu(least[..., :2] + least[..., 2:])
    shared = extent[..., 0] * extent[..., 1]
    union = area(sides) + area(true_sides) - shared
    hull = area(tf.maximum(sides, true_sides))
    return 1 - shared / (union + 1e-7) + (hull - union) / (hull + 1e-7)


def decoded(score: tf.Tensor, sides: tf.Tensor, hyper: Hyperparameters) -> tf.Tensor:
    """Candidates [B, K, 7] in order of score, as `records` reads them, of scores [B, h, w, classes] and sides
    [B, h, w, 4].

    A candidate is a cell with no higher-scoring neighbour (CenterNet). For suppression see `torch_boxes.py`.
    """
    batch, height, width, classes = score.shape
    peaks = tf.where(tf.nn.max_pool2d(score, 3, 1, "SAME") == score, score, 0)
    best, place = tf.math.top_k(tf.reshape(peaks, (batch, -1)), 4 * hyper.max_detections)
    cell, category = place // classes, tf.cast(place % classes, tf.float32)
    points = tf.gather(tf.reshape(cell_centres(height, width, hyper.stride), (-1, 2)), cell)
    around = tf.gather(tf.reshape(sides, (batch, -1, 4)), cell, axis=1, batch_dims=1)
    frame = tf.constant([width, height], tf.float32) * hyper.stride
    low, high = (tf.clip_by_value(corner, 0, frame) for corner in (points - around[..., :2], points + around[..., 2:]))
    extent = tf.minimum(high[:, :, None], high[:, None]) - tf.maximum(low[:, :, None], low[:, None])
    shared = tf.reduce_prod(tf.nn.relu(extent), -1)
    area = tf.reduce_prod(high - low, -1)
    overlap = shared > hyper.nms_iou * (area[:, :, None] + area[:, None] - shared)
    alike = category[:, :, None] == category[:, None]
    rivals = tf.cast(overlap & alike, tf.float32)
    rivals = tf.linalg.band_part(rivals, 0, -1) - tf.linalg.band_part(rivals, 0, 0)  # [B, better, worse]
    kept = tf.ones_like(best)
    for _ in range(ROUNDS):
        kept = tf.cast(tf.matmul(kept[:, None], rivals)[:, 0] == 0, tf.float32)
    return tf.concat([low, high, tf.stack([best, category, kept], -1)], -1)
