# Included at llama.cpp's project(): its "common" library serves its command-line tools, which are not built.
set(LLAMA_BUILD_COMMON OFF)
