"""x"""

from random import Random

from .grammar import sentence_pair
