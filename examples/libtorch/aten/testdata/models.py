"""Writes models whose results are not what DLPack can carry: python models.py FOLDER."""

import pathlib
import sys
import warnings

import torch


class Conjugate(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.complex(x, x).conj()


class Negative(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._neg_view(x)


class Weight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight


class Sparse(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse()


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x


with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    for model in (Conjugate, Negative, Weight, Sparse, Pair):
        torch.jit.script(model()).save(pathlib.Path(sys.argv[1]) / f"{model.__name__}.pt")
