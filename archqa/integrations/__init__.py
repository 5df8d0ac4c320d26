"""archqa inside other tools, each an extra of its own."""
