"""Models of ``transformers`` and ``timm``, tiny and with random weights made here: nothing is downloaded."""

from .evaluation import gradients, scores, widened
from .exact import Exactly
from .family import FAMILIES, Family
from .images import IMAGE_MODELS, ImageModel

__all__ = ["FAMILIES", "IMAGE_MODELS", "Exactly", "Family", "ImageModel", "gradients", "scores", "widened"]
