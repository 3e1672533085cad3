"""ONNX graphs of a model, written operation by operation, and ONNX Runtime as a transformers model."""
