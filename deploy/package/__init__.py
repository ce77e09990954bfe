"""The modules of a deployed package. They import torch and each other, nothing else of this project."""
