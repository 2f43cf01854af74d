"""Pictures, boxes and heat in PyTorch, all on the device: augmentation, targets, loss, and decoding."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from reference_impls.detection.shared import CENTRE, GAUSSIAN, ROUNDS, SPREAD, VISIBLE, Hyperparameters


def cells_of(planes: torch.Tensor, stride: int) -> torch.Tensor:
    """Planes [B, C, H, W] as cells [B, C * stride**2, h, w], each with the pixels of its patch, in channels_last."""
    return F.pixel_unshuffle(planes, stride).contiguous(memory_format=torch.channels_last)


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """Bytes to float32 around zero."""
    return (pixels.float() - CENTRE) / SPREAD


def moved_planes(planes: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Planes [B, C, H, W], scaled about the centre and shifted, by linear interpolation; zero beyond the picture."""
    sources = []  # where in the old picture, from -1 to 1, the pixels of the new one are
    for axis, side in enumerate((planes.shape[3], planes.shape[2])):
        pixels = (2 * torch.arange(side, device=planes.device) + 1) / side - 1
        sources.append((pixels - 2 * shift[:, axis, None]) / scale[:, axis, None])
    shape = (len(planes), *planes.shape[2:])
    grid = torch.stack([sources[0][:, None].expand(shape), sources[1][:, :, None].expand(shape)], -1)
    return F.grid_sample(planes, grid, align_corners=False)


def moved_boxes(
    boxes: torch.Tensor, classes: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, frame: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes [B, L, 4] and classes [B, L] of pictures of size `frame` [2] that were moved by `moved_planes`.

    Boxes are cut at the border; an object of which less than `VISIBLE` is left gets class -1.
    """
    corners = boxes.view(*boxes.shape[:2], 2, 2) - frame / 2
    corners = scale[:, None, None] * corners + (frame / 2 + shift * frame)[:, None, None]
    low, high = corners.amin(-2), corners.amax(-2)
    cut_low, cut_high = (torch.minimum(corner.clamp(min=0), frame) for corner in (low, high))
    seen = (cut_high - cut_low).prod(-1) >= VISIBLE * (high - low).prod(-1)
    return torch.cat([cut_low, cut_high], -1), torch.where(seen, classes, -1)


def targets(
    boxes: torch.Tensor, classes: torch.Tensor, height: int, width: int, hyper: Hyperparameters
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The network's targets in each cell, from boxes [B, L, 4] in pixels and classes [B, L], -1 where there is none.

    Heat [B, classes, h, w] is one at an object's centre and falls off around it; sides [B, h, w, 4] are the pixels
    from the cell's centre to the left, top, right and bottom of its object; weight [B, h, w] is how much the sides
    count, at most one in all for each object.
    """
    device = boxes.device
    centre = (boxes[..., :2] + boxes[..., 2:]) / (2 * hyper.stride)
    size = (boxes[..., 2:] - boxes[..., :2]) / hyper.stride
    radius = (GAUSSIAN * size / 2).floor()
    deviation = (2 * radius + 1) / 6
    bells = []
    for axis, cells in enumerate((width, height)):
        cell = centre[..., axis, None].floor().clamp(0, cells - 1)
        distance = (torch.arange(cells, device=device) - cell).abs()
        exponent = torch.where(distance <= radius[..., axis, None], distance / deviation[..., axis, None], torch.inf)
        bells.append(torch.exp(-0.5 * exponent.square()))
    across, down = bells
    present = classes >= 0
    heats = down[..., None] * (across * present[..., None])[..., None, :]  # [B, L, h, w]
    of_class = classes[..., None] == torch.arange(hyper.classes, device=device)
    heat = (heats[:, :, None] * of_class[..., None, None]).amax(1)

    area = torch.where(present, size.prod(-1), torch.inf)[..., None, None]
    owner = torch.where(heats > 0, area, torch.inf).min(1, keepdim=True).indices  # where objects overlap, the smallest
    weight = (heats / heats.sum((2, 3), keepdim=True).clamp(min=1)).gather(1, owner)[:, 0]
    box = boxes[torch.arange(len(boxes), device=device)[:, None, None], owner[:, 0]]
    points = cell_centres(height, width, hyper.stride, device)
    return heat, torch.cat([points - box[..., :2], box[..., 2:] - points], -1), weight


def cell_centres(height: int, width: int, stride: int, device: torch.device) -> torch.Tensor:
    """x and y [h, w, 2] of the cells' centres in pixels."""
    y, x = ((torch.arange(cells, device=device) + 0.5) * stride for cells in (height, width))
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)


def loss_of(
    heat: torch.Tensor, sides: torch.Tensor, boxes: torch.Tensor, classes: torch.Tensor, hyper: Hyperparameters
) -> torch.Tensor:
    """CenterNet's focal loss of the heat plus TTFNet's weighted GIoU loss of the sides, summed over all objects."""
    true_heat, true_sides, weight = targets(boxes, classes, heat.shape[2], heat.shape[3], hyper)
    score = heat.sigmoid()
    hit = (1 - score).square() * F.logsigmoid(heat)
    miss = ((1 - true_heat).square() * score).square() * F.logsigmoid(-heat)
    focal = -torch.where(true_heat == 1, hit, miss).sum()
    giou = (weight * giou_loss(sides.permute(0, 2, 3, 1), true_sides)).sum()
    return focal + hyper.box_loss_weight * giou


def giou_loss(sides: torch.Tensor, true_sides: torch.Tensor) -> torch.Tensor:
    """One minus the generalised IoU (Rezatofighi et al. 2019) of boxes given by their sides [..., 4] around a point.

    torchvision's waits for the device, since it indexes with a mask.
    """

    def area(of: torch.Tensor) -> torch.Tensor:
        return (of[..., 0] + of[..., 2]) * (of[..., 1] + of[..., 3])

    least = torch.minimum(sides, true_sides)
    extent = (least[..., :2] + least[..., 2:]).clamp(min=0)
    shared = extent[..., 0] * extent[..., 1]
    union = area(sides) + area(true_sides) - shared
    hull = area(torch.maximum(sides, true_sides))
    return 1 - shared / (union + 1e-7) + (hull - union) / (hull + 1e-7)


def decoded(score: torch.Tensor, sides: torch.Tensor, hyper: Hyperparameters) -> torch.Tensor:
    """Candidates [B, K, 7] in order of score, as `records` reads them, of scores [B, classes, h, w] and sides
    [B, 4, h, w].

    A candidate is a cell with no higher-scoring neighbour (CenterNet). Greedy suppression, class by class, is
    done for all boxes at once (Cluster-NMS, Zheng et al. 2020, arXiv:2005.03572): round n settles each box that no
    chain of more than n rivals, each better than the next, leads to.
    """
    height, width = score.shape[2:]
    peaks = torch.where(F.max_pool2d(score, 3, 1, 1) == score, score, 0)
    best, place = peaks.flatten(1).topk(4 * hyper.max_detections)
    category, cell = place // (height * width), place % (height * width)
    points = cell_centres(height, width, hyper.stride, score.device).flatten(0, 1)[cell]
    around = sides.flatten(2).mT.gather(1, cell[..., None].expand(-1, -1, 4))
    x, y = torch.stack([points - around[..., :2], points + around[..., 2:]], -1).clamp(min=0).unbind(2)
    x, y = x.clamp(max=width * hyper.stride), y.clamp(max=height * hyper.stride)

    def overlap(edges: torch.Tensor) -> torch.Tensor:
        low, high = edges[:, :, None].unbind(-1)
        return (torch.minimum(high, high.mT) - torch.maximum(low, low.mT)).clamp(min=0)

    shared = overlap(x) * overlap(y)
    area = x.diff(dim=-1) * y.diff(dim=-1)
    rivals = (shared > hyper.nms_iou * (area + area.mT - shared)) & (category[..., None] == category[:, None])
    rivals = rivals.triu(1).float()  # [B, better, worse]
    kept = torch.ones_like(best)
    for _ in range(ROUNDS):
        kept = (torch.bmm(kept[:, None], rivals)[:, 0] == 0).float()
    return torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1], best, category, kept], -1)
