"""What computes translations: PyTorch, CTranslate2, ONNX Runtime; how models are converted, and which one is chosen."""
