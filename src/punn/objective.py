"""What a fit minimises: the loss of a network's rows, and for plain networks its gradient by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from punn.gates import Hybrid, Shared, Shell
from punn.network import PUNN
from punn.partition import loss_and_gradient, nll_loss
from punn.relu import ReLUNetwork, layers_of, softmax_loss

__all__ = ["ByHand", "Objective"]


class Objective(nn.Module):
    """Rows to the mean loss of one network.

    Arguments:
        network: The network.
        smoothness: Penalty on radius functions, growing with the degree.
        label_smoothing: Share of the target that is spread over all classes.
        mixed: Run the gates in bfloat16.
        plain: Whether it is called as it is, not mapped over copies, which the closed forms do not know.
    """

    def __init__(self, network: PUNN, smoothness: float, label_smoothing: float, mixed: bool, plain: bool) -> None:
        super().__init__()
        self.network = network
        self.smoothness, self.label_smoothing, self.mixed = smoothness, label_smoothing, mixed
        plain &= network.activation.sigmoid
        self.closed_form = plain and label_smoothing == 0
        coupled = isinstance(network.gates, Shared) and network.gates.coupled
        # Coupled gates with one function per class are a softmax in the chain's order, whose loss torch has.
        self.softmax = plain and coupled and network.functions == network.classes
        self.place = network.class_of.argsort()  # of every class in the chain, if it has but one

    def forward(self, x: Tensor, y: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """The loss, with penalties only while training; without classes, the most probable ones."""
        network = self.network
        reduction = "mean" if weight is None else "none"
        theta = self._arguments(x)
        if y is None:
            return network.class_of[theta.argmax(-1)] if self.softmax else network.log_probabilities(theta).argmax(-1)
        label_smoothing = self.label_smoothing if network.training else 0.0
        if self.softmax:
            scores = theta.to(torch.promote_types(theta.dtype, torch.float32))
            target = self.place[y]
            losses = nn.functional.cross_entropy(scores, target, reduction=reduction, label_smoothing=label_smoothing)
        elif self.closed_form:
            losses = nll_loss(theta, y, network.class_of, reduction=reduction)
        else:
            log_p = network.log_probabilities(theta, continued=True)
            losses = -log_p.gather(-1, y.unsqueeze(-1)).squeeze(-1)
            if label_smoothing:
                losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(-1)
        if weight is not None:
            loss = (losses * weight).sum() / weight.sum()
        else:
            loss = losses.mean() if losses.ndim else losses
        if self.smoothness and network.training and isinstance(network.gates, Shell | Hybrid):
            loss = loss + self.smoothness * network.gates.roughness().to(loss)
        return loss

    def _arguments(self, x: Tensor) -> Tensor:
        """What the gates give, in half precision if that is wanted: scores for a softmax, else gate arguments."""
        gates: Callable[[Tensor], Tensor] = self.network.gates.scores if self.softmax else self.network.gates  # type: ignore[assignment]
        if not self.mixed:
            return gates(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return gates(x)


class ByHand:
    """The same loss and its gradient without autograd, which takes half of the time of a small network's step.

    Arguments:
        objective: A loss in closed form.
        network: The gates' networks, by hand.
    """

    def __init__(self, objective: Objective, network: ReLUNetwork) -> None:
        self.objective, self.network = objective, network

    @classmethod
    def of(cls, objective: Objective) -> ByHand | None:
        """For ReLU networks with a loss in closed form, whose parameters have their gradients; None for others."""
        gates = objective.network.gates
        short = objective.softmax or (objective.closed_form and not getattr(gates, "coupled", False))
        layers = layers_of(gates) if short and not objective.mixed else None
        return None if layers is None else cls(objective, ReLUNetwork(layers))

    @torch.inference_mode()
    def __call__(
        self, x: Tensor, y: Tensor, weight: Tensor | None = None, share: float = 1.0, add: bool = True
    ) -> Tensor:
        """The mean loss of some rows; their gradient, times their share in a batch, goes to the parameters.

        Arguments:
            x: Rows.
            y: Their classes.
            weight: How much each counts.
            share: How much they count in their batch.
            add: Whether their gradient is added to the one that the parameters have.
        """
        objective = self.objective
        theta = self.network.forward(x)
        scale = share / len(x) if weight is None else weight * (share / weight.sum())
        if objective.softmax:
            loss, slope = softmax_loss(theta, objective.place[y], scale, objective.label_smoothing)
        else:
            loss, slope = loss_and_gradient(theta, y, objective.network.class_of, scale)
        self.network.backward(slope, add)
        return loss if share == 1 else loss / share
