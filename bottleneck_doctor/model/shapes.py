"""Shapes of the costly work in the graph behind a loss: facts for timing alternatives after the training.

A call is one in the forward pass; its backward pass follows. ``inputs`` says whether the gradient of what the
layers before it made is computed too, beside that of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProductShape:
    """``batch`` products of m x k times k x n; batch 0 is a layer's product, whose weight is n x k."""

    pid: int
    device: str
    dtype: str
    calls: int
    batch: int
    m: int
    k: int
    n: int
    inputs: bool = True


@dataclass(frozen=True)
class ConvolutionShape:
    """``input`` (samples, channels, then places; up to a stride less one where only the result's size was
    known) and ``weight`` as torch lays them out. No transposed ones."""

    pid: int
    device: str
    dtype: str
    calls: int
    input: list[int]
    weight: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int = 1
    inputs: bool = True


@dataclass(frozen=True)
class AttentionShape:
    """Product, softmax, product: ``batch`` heads in all, ``queries`` x ``keys`` scores each. ``between``: how
    often the scores go through memory for scaling, masking or the like before the softmax."""

    pid: int
    device: str
    dtype: str
    calls: int
    batch: int
    queries: int
    keys: int
    width: int
    value_width: int
    between: int = 0
    masked: bool = False
    dropout: bool = False


@dataclass(frozen=True)
class Shapes:
    """All of the above, of all training processes, by falling number of multiplications."""

    products: list[ProductShape] = field(default_factory=list)
    convolutions: list[ConvolutionShape] = field(default_factory=list)
    attentions: list[AttentionShape] = field(default_factory=list)
