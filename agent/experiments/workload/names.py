"""What the ceilings are called that the engines' work is bound by."""

LLAMA_READ = "read by llama.cpp"  # apart, for llama.cpp may run on another device than PyTorch
FLOAT32, Q4_0 = "float32", "Q4_0"
ONNX_FLOAT32, ONNX_INT8 = "float32 in ONNX Runtime", "int8 in ONNX Runtime"
