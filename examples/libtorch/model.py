"""Saves a small PyTorch model, which Go runs: python model.py model.pt."""

import sys
import warnings

import torch


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0, 0.0, -1.0], [0.5, 0.5, 0.5]]))
            self.linear.bias.copy_(torch.tensor([1.0, -10.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # TorchScript is what libtorch runs without a compiler
    torch.jit.script(Model().eval()).save(sys.argv[1])
