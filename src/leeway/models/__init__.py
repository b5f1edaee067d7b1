"""Models: where weights come from: catalogue, fetching, GGUF and safetensors readers."""
