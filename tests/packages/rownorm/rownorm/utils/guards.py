"""Decorators of launchers."""

import functools

import torch


def contiguous_inputs(function):
    """Make the tensors among the arguments contiguous."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        args = [one.contiguous() if isinstance(one, torch.Tensor) else one for one in args]
        kwargs = {name: one.contiguous() if isinstance(one, torch.Tensor) else one for name, one in kwargs.items()}
        return function(*args, **kwargs)

    return wrapper
