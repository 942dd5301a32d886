"""Writes pytorch.safetensors with PyTorch, which only this program needs: `python pytorch.py`. vectors.py then describes the file."""

import pathlib

import safetensors.torch
import torch

tensors = {
    "linear.weight": torch.arange(12, dtype=torch.bfloat16).reshape(3, 4), "linear.bias": torch.linspace(-1, 1, 3),
    "scale": torch.tensor(0.5, dtype=torch.float8_e4m3fn), "position_ids": torch.arange(5), "mask": torch.tensor([True, False, True]),
    "half": torch.ones(2, 0, dtype=torch.float16),
}  # fmt: skip
safetensors.torch.save_file(tensors, pathlib.Path(__file__).parent / "pytorch.safetensors", {"format": "pt"})
